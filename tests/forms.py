"""How the documents of a dialect stand on its wire, and what somebody reads there who shares no code with the dialect.

Most dialects write JSON. Warp writes protobuf; its documents are the trees of `tests.warp_server.messages`, those of a
response are `{"events": […]}`, and what a response says is what its events add up to.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from tests.warp_server import frames, messages, state
from toolglot.dialects import DIALECTS

Document = Any


class Form(NamedTuple):
    write: Callable[[Document], bytes]
    read: Callable[[bytes], Document]
    """The document of these bytes."""
    said: Callable[[bytes], Any]
    """What the document says, however it is written: equal where nothing is lost."""


def _json(document: Document) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


JSON = Form(_json, json.loads, json.loads)


def _write_request(document: Document) -> bytes:
    return messages.encode("Request", document) if isinstance(document, dict) else _json(document)


def _said_request(raw: bytes) -> Any:
    said = messages.meant("Request", messages.decode("Request", raw))
    settings = said.get("settings")
    if isinstance(settings, dict) and settings.get("model_config") == {}:  # says no model, as its absence does
        del settings["model_config"]
    return said


def _write_event(document: Document) -> bytes:
    raw = messages.encode("ResponseEvent", document) if isinstance(document, dict) else _json(document)
    return frames.padded(raw).encode()


def _read_event(raw: bytes) -> Document:
    return frames.events_of(b"data:" + raw + b"\n\n")[0]


def _write_events(document: Document) -> bytes:
    events = document.get("events") if isinstance(document, dict) else document
    listed = events if isinstance(events, list) else [events]
    return b"".join(b"event:data\ndata:%b\n\n" % _write_event(event) for event in listed)


def _read_events(raw: bytes) -> Document:
    return {"events": frames.events_of(raw)}


def _said_events(raw: bytes) -> Any:
    return messages.meant("Said", state.added_up(frames.events_of(raw)).tree())


_EVENTS = Form(_write_events, _read_events, _said_events)
FORMS: dict[str, dict[str, Form]] = {
    "warp": {
        "request": Form(_write_request, lambda raw: messages.decode("Request", raw), _said_request),
        "response": _EVENTS,
        "stream": _EVENTS,
        "frame": Form(_write_event, _read_event, _read_event),
    },
}
"""By dialect and kind; whatever is not here is JSON."""


def form(dialect: str, kind: str = "request") -> Form:
    return FORMS.get(dialect, {}).get(kind, JSON)


def is_json(dialect: str) -> bool:
    """Are the bodies of this dialect JSON?"""
    return dialect not in FORMS


def forwards(dialect: str) -> bool:
    """Do the bytes go through as they are where both sides speak this dialect?"""
    return DIALECTS[dialect].upstream.forwards


def text_of(dialect: str, kind: str, raw: bytes) -> str:
    """A text in which everything can be found that the bytes say."""
    if is_json(dialect):
        return raw.decode()
    tree = form(dialect, kind).read(raw)
    return "\n".join([_json(tree).decode(), *_unpacked(tree)])


def _unpacked(value: Any) -> Iterator[str]:
    """The texts that stand as base64 in a tree, because the wire has bytes there."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _unpacked(item)
    elif isinstance(value, str):
        with suppress(ValueError):
            yield base64.b64decode(value, validate=True).decode()


class History(NamedTuple):
    """A request as its prompt cache sees it: the conversation so far in items, and everything else."""

    items: list[bytes]
    rest: dict[str, bytes]


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


def history_of(dialect: str, raw: bytes) -> History:
    """The conversation as its bytes stand in the request. What Warp is asked now stands apart from it, in inputs."""
    if is_json(dialect):
        rest = {name: bytes(value) for name, value in _members.decode(raw).items()}
        items = _elements.decode(rest.pop(DIALECTS[dialect].request.history_key))
        return History([bytes(item) for item in items], rest)
    tree = messages.decode("Request", raw)
    tasks = tree.pop("task_context", {}).get("tasks", [])
    tree.pop("input", None)
    past = [messages.encode("Message", message) for task in tasks for message in task.get("messages", [])]
    return History(past, {name: _json(value) for name, value in tree.items()})
