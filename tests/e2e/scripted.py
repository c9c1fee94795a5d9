"""Upstreams that answer by a script, each in its own dialect.

A script is a function from what a request shows (its tools, the results it brings) to a turn (some text, some calls).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .loopback import Answer, Asked, Reply, stream, whole
from .wires import WIRES, Event, Schema, Turn, Wire


@dataclass(frozen=True)
class Seen:
    """What a request shows: the schema of each tool by its name, the results of the calls so far as text, and the
    schema of the answer if it must be JSON."""

    tools: dict[str, Schema]
    results: list[str]
    wanted: Schema | None
    pictures: int
    """How many pictures the messages have."""


Script = Callable[[Seen], Turn]


def upstream(dialect: str, script: Script) -> Answer:
    """An answer for the loopback server."""
    return spoken(WIRES[dialect], script)


def spoken(wire: Wire, script: Script) -> Answer:
    """The same in any wire form."""

    def answer(asked: Asked) -> Reply:
        if is_count(asked):
            return whole(_json(COUNT))
        body = asked.json()
        streams = bool(body.get("stream")) or asked.path.endswith(":streamGenerateContent")
        turn = script(Seen(wire.tools(body), wire.results(body), _at(body, wire.wanted), _pictures(body)))
        if not streams:
            return whole(_json(wire.whole(turn)))
        return stream(_frames(wire, wire.events(turn)))

    return answer


COUNT = {"input_tokens": 12, "totalTokens": 12}
"""How many tokens a request has, in the words of all the dialects that can be asked for it."""


def is_count(asked: Asked) -> bool:
    return asked.path.endswith(("/count_tokens", "/input_tokens", ":countTokens"))


def _pictures(value: Any) -> int:
    """Each dialect has its own mark of a picture, and none has another's."""
    if isinstance(value, list):
        return sum(map(_pictures, value))
    if not isinstance(value, dict):
        return 0
    here = "inlineData" in value or value.get("type") in ("image_url", "input_image", "image")
    return here + sum(_pictures(inner) for key, inner in value.items() if key != "tools")


def _at(body: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        body = (body or {}).get(key)
    return body


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _frames(wire: Wire, events: Iterable[Event]) -> Iterator[bytes]:
    for event in events:
        if wire.named_events:
            yield b"event: %b\n" % event["type"].encode()
        yield b"data: %b\n\n" % _json(event)
