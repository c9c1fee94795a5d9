"""When two requests to an upstream are the same.

They are, when they ask for the same in the same dialect. What does not matter:

- the order of members, the address before the last part of the path, the headers, the query;
- the model's name, which an alias may have changed; of several recordings one of the same model is taken;
- members that tell who asks and not what (`VOLATILE`);
- parts of texts that are new in each run of an agent (`CHANGING`): ids, dates, how long something took. A recording
  that is the same in these too is taken before others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from toolglot.dialects import DIALECTS, find
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.recordings.redact import Redactor
from toolglot.wire import json

_OPENAI = ("model", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")

VOLATILE: Mapping[str, tuple[str, ...]] = {
    "openai_chat": _OPENAI,
    # Codex tells its installation, its session and its turn there.
    "openai_responses": (*_OPENAI, "client_metadata"),
    # Claude Code tells its device and its session there.
    "anthropic": ("model", "metadata"),
    "gemini": ("model", "labels"),
    WARP: ("metadata",),
}
"""Members of a request that do not tell what is asked."""


class Changing(Struct, frozen=True):
    """A part of texts that differs from run to run, as it stands in JSON. What `pattern` finds begins with a character
    that is rare, so that the search is quick; so many bytes `before` it belong to it."""

    pattern: re.Pattern[bytes]
    before: int = 0
    instead: bytes = b"(id)"


CHANGING = (
    # The first line of Claude Code's instructions has a checksum in it.
    Changing(re.compile(rb"-billing-header:(?:[^\"\\]|\\[^n])*")),
    Changing(re.compile(rb"-(?<=[0-9A-Fa-f]{8}-)(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"), 8),
    # Ids of sessions are redacted where a header tells them too.
    Changing(re.compile(rb"\[redacted\]")),
    # What Codex tells of a command that it has run.
    Changing(re.compile(rb"Chunk ID: [0-9a-f]{1,40}")),
    Changing(re.compile(rb"all time: [0-9.]{1,24}"), 0, b"(seconds)"),
    Changing(re.compile(rb"duration(?:_seconds)?\\?\"?: ?[0-9.]{1,24}"), 0, b"(seconds)"),
    Changing(
        re.compile(rb"-(?<=[0-9]{4}-)\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
        4,
        b"(time)",
    ),
    Changing(
        re.compile(
            rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? (?:[A-Z][a-z]{2,8} \d{1,2}|\d{1,2} [A-Z][a-z]{2,8})"
            rb"(?:,? \d{4})?(?: \d\d:\d\d:\d\d)?"
        ),
        0,
        b"(time)",
    ),
)

ENDS = 24
"""Parts at the beginning and at the end of a request by which the nearest recording is looked for."""

_sorted = msgspec.json.Encoder(order="sorted")
_IN_PATH = re.compile(r"/models/([^/:]+):\w+$")


class Asked(Struct, frozen=True, kw_only=True):
    """A request as it is compared."""

    group: bytes
    """The same for requests that are the same but for what changes."""
    exact: bytes
    """The same for requests that are the same in that too."""
    parts: bytes
    """Of what it consists, in hashes of four bytes: to find what is nearest."""
    model: str = ""
    """As far as the address or the body tells it."""


def operation(url: str) -> str:
    """What an address is for: the last part of its path, for Gemini without the model's name."""
    return urlsplit(url).path.rstrip("/").rpartition("/")[2].rpartition(":")[2]


def document(dialect: str, body: bytes) -> Any:
    """The request as JSON, Warp's too; where it is none, or none that can be read here, its bytes as text."""
    try:
        return _warp(body) if dialect == WARP else json.decode(body)
    except (DecodeError, MissingExtraError):
        return body.decode("utf-8", "backslashreplace")


def _warp(body: bytes) -> Any:
    find(WARP)
    from toolglot.dialects.warp import bridge  # needs an extra

    return bridge.decode(body, "Request").value


def telling(dialect: str, value: Any) -> Any:
    """A request without what does not tell what is asked."""
    if not isinstance(value, dict):
        return value
    return {name: member for name, member in value.items() if name not in VOLATILE.get(dialect, ())}


def steady(data: bytes) -> bytes:
    """JSON without what differs from run to run."""
    for changing in CHANGING:
        parts, done = [], 0
        for found in changing.pattern.finditer(data):
            parts += [data[done : max(found.start() - changing.before, done)], changing.instead]
            done = found.end()
        data = b"".join([*parts, data[done:]]) if parts else data
    return data


def asked(dialect: str, url: str, body: bytes, redactor: Redactor | None = None) -> Asked:
    """What is compared of a request. The `redactor` takes out of it what no recording has in it."""
    whole = document(dialect, body)
    value = telling(dialect, whole)
    head = f"{dialect} {operation(url)} ".encode()
    exact, group, parts = blake2b(head, digest_size=16), blake2b(head, digest_size=16), list[bytes]()
    for name, written in _written(dialect, value):
        told = written if redactor is None else redactor.body(written)
        lasting = steady(told)
        parts.append(_hash(lasting))
        for summed, part in ((exact, told), (group, lasting)):
            summed.update(b"%b %d " % (name.encode(), len(part)))
            summed.update(part)
    ends = parts if len(parts) <= 2 * ENDS else [*parts[:ENDS], *parts[-ENDS:]]
    return Asked(group=group.digest(), exact=exact.digest(), parts=b"".join(ends), model=_model(url, whole))


def _written(dialect: str, value: Any) -> Iterator[tuple[str, bytes]]:
    """The members of a request in the order of their names, and the messages of its conversation one by one behind
    them, as JSON that does not depend on the order of members."""
    if not isinstance(value, dict):
        yield "", _sorted.encode(value)
        return
    key = DIALECTS[dialect].history_key
    messages = value.get(key) if isinstance(value.get(key), list) else None
    for name in sorted(value):
        if name != key or messages is None:
            yield name, _sorted.encode(value[name])
    for message in messages or ():
        yield key, _sorted.encode(message)


def _model(url: str, value: Any) -> str:
    in_path = _IN_PATH.search(urlsplit(url).path)
    named = unquote(in_path[1]) if in_path else value.get("model") if isinstance(value, dict) else None
    return named if isinstance(named, str) else ""


def likeness(one: Asked, other: Asked) -> tuple[int, int]:
    """How much two requests have in common, and then how little the second has beside it."""
    parts, others = (set(memoryview(each.parts).cast("I")) for each in (one, other))
    return len(parts & others), -len(others)


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=4).digest()
