"""When two requests to an upstream are the same.

They are, when they ask for the same in the same dialect. What does not matter:

- the order of members, whether a whole number has a point (1 or 1.0), the address before the last part of the path,
  the headers, the query;
- the model's name, which an alias may have changed; of several recordings one of the same model is taken;
- members that tell who asks and not what (`VOLATILE`);
- parts of texts that are new in each run of an agent (`recordings/changing.py`). A recording that is the same in these
  too is taken before others;
- what was redacted in the recording (`recordings/holes.py`). A recording without such holes is taken before others, and
  one with small ones before one with large ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from toolglot.dialects import DIALECTS, ByDialect
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.json_forms import find_json_form
from toolglot.recordings.changing import Changing, without
from toolglot.recordings.holes import firmness, fits_text, with_holes
from toolglot.recordings.marks import HINT, steady_with_holes
from toolglot.recordings.redact import Redactor, split_address
from toolglot.wire import json

VOLATILE: Mapping[str, tuple[str, ...]] = ByDialect(lambda manifest: manifest.volatile)
"""Members of a request that do not tell what is asked."""


_REDACTED = Changing(re.compile(rb"\[redacted\]"))
"""Ids of sessions are redacted where a header tells them too."""

_EXACT = 2**53
"""Up to here a float is the whole number that it seems to be."""
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
    shape: bytes = b""
    """The same for requests that have the same members, and as long a conversation."""
    solid: tuple[bytes | None, ...] = ()
    """All parts in hashes of four bytes; of one that something was redacted in, None."""
    firm: int = 0
    """How much stands around what was redacted: of two recordings that fit, the one with more of it fits better."""


class Part(Struct, frozen=True):
    """A member of a request, or a message of its conversation, as JSON."""

    name: str
    told: bytes
    open: bytes
    """Without what differs from run to run, but with what was redacted."""

    @property
    def lasting(self) -> bytes:
        """Without what differs from run to run."""
        return without(_REDACTED, self.open)


def operation(url: str) -> str:
    """What an address is for: the last part of its path, for Gemini without the model's name."""
    return split_address(url).path.rstrip("/").rpartition("/")[2].rpartition(":")[2]


def document(dialect: str, body: bytes) -> Any:
    """The request as JSON, or in its JSON form; where it has none that can be read here, its bytes as text."""
    try:
        form = find_json_form(dialect)
        return json.decode(body) if form is None else form.decode_request(body)
    except (DecodeError, MissingExtraError):
        return body.decode("utf-8", "backslashreplace")


def telling(dialect: str, value: Any) -> Any:
    """A request without what does not tell what is asked."""
    if not isinstance(value, dict):
        return value
    return {name: member for name, member in value.items() if name not in VOLATILE.get(dialect, ())}


def parts_of(dialect: str, value: Any, redactor: Redactor | None = None) -> Iterator[Part]:
    """What is compared of a request, part by part. The `redactor` takes out of it what no recording has in it."""
    value = telling(dialect, value)
    with suppress(RecursionError):  # nested so deeply it is compared as it is
        value = _numbered(value)
    for name, written in _written(dialect, value):
        told = written if redactor is None else _redacted(written, redactor)
        yield Part(name, told, steady_with_holes(told))


def _redacted(data: bytes, redactor: Redactor) -> bytes:
    redacted, numbers = redactor.redacted(data)
    return with_holes(redacted.decode(), numbers).encode() if numbers else redacted


def asked(dialect: str, url: str, body: bytes, redactor: Redactor | None = None) -> Asked:
    """What is compared of a request. The `redactor` takes out of it what no recording has in it."""
    head = f"{dialect} {operation(url)} ".encode()
    exact, group, shape = (blake2b(head, digest_size=16) for _ in range(3))
    hashes, has_hole, firm = list[bytes](), list[bool](), 0
    whole = document(dialect, body)
    for part in parts_of(dialect, whole, redactor):
        lasting, name = part.lasting, part.name.encode()
        hashes.append(_hash(lasting))
        has_hole.append(HINT in part.open)
        firm += firmness(part.open) if has_hole[-1] else len(part.open)
        shape.update(b"%b " % name)
        for summed, data in ((exact, part.told), (group, lasting)):
            summed.update(b"%b %d " % (name, len(data)))
            summed.update(data)
    ends = hashes if len(hashes) <= 2 * ENDS else [*hashes[:ENDS], *hashes[-ENDS:]]
    solid = [None if hole else each for each, hole in zip(hashes, has_hole, strict=True)] if any(has_hole) else hashes
    return Asked(
        group=group.digest(),
        exact=exact.digest(),
        parts=b"".join(ends),
        model=_model(url, whole),
        shape=shape.digest(),
        solid=tuple(solid),
        firm=firm,
    )


def _numbered(value: Any) -> Any:
    """With whole numbers as such: 1.0 is 1, and some libraries write the one, some the other."""
    if isinstance(value, dict):
        return {name: _numbered(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_numbered(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value


def _written(dialect: str, value: Any) -> Iterator[tuple[str, bytes]]:
    """The members of a request in the order of their names, and the messages of its conversation one by one behind
    them, as JSON that does not depend on the order of members."""
    if not isinstance(value, dict):
        yield "", _sorted.encode(value)
        return
    key = DIALECTS[dialect].request.history_key
    messages = value.get(key) if isinstance(value.get(key), list) else None
    for name in sorted(value):
        if name != key or messages is None:
            yield name, _sorted.encode(value[name])
    for message in messages or ():
        yield key, _sorted.encode(message)


def _model(url: str, value: Any) -> str:
    in_path = _IN_PATH.search(split_address(url).path)
    named = unquote(in_path[1]) if in_path else value.get("model") if isinstance(value, dict) else None
    return named if isinstance(named, str) else ""


def fits(then: Sequence[Part], now: Sequence[Part]) -> bool:
    """Whether a recorded request is this one but for its holes."""
    return len(then) == len(now) and all(
        one.name == other.name and (one.lasting == other.lasting or fits_text(one.open, other.open))
        for one, other in zip(then, now, strict=True)
    )


def looseness(then: Asked, now: Asked) -> tuple[bool, int]:
    """How much of a request the holes of a recorded one would have to stand for; what has more around them than the
    request has can hardly be the same."""
    return then.firm > now.firm, abs(now.firm - then.firm)


def likeness(one: Asked, other: Asked) -> tuple[int, int]:
    """How much two requests have in common, and then how little the second has beside it."""
    parts, others = (set(memoryview(each.parts).cast("I")) for each in (one, other))
    return len(parts & others), -len(others)


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=4).digest()
