"""Decide when two requests to an upstream are the same.

They are the same if they have the same meaning in the same dialect. These differences are ignored:

- the order of members, whether a whole number has a point (1 or 1.0), the address before the last part of the path, the
  headers, the query;
- the model's name, which an alias may have changed; a recording of the same model is preferred;
- members that identify the caller, not the request (`VOLATILE`);
- parts of texts that are new in each run of an agent (`recordings/volatile_text.py`). A recording that also agrees in
  these is preferred;
- redacted values of the recording (`recordings/redacted_spans.py`). A recording without redactions is preferred, and
  one with small redactions before one with large ones.
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
from toolglot.recordings.placeholders import PLACEHOLDER_HINT, normalize_volatile_spans
from toolglot.recordings.redact import Redactor, split_address
from toolglot.recordings.redacted_spans import literal_size, mark_numbers, matches_text
from toolglot.recordings.volatile_text import VolatilePattern, replace_volatile
from toolglot.wire import json

VOLATILE: Mapping[str, tuple[str, ...]] = ByDialect(lambda manifest: manifest.volatile)
"""Members of a request that do not affect its meaning."""


_REDACTED_MEMBERS = VolatilePattern(re.compile(rb"\[redacted\]"))
"""Session ids are redacted if a header contains them, too."""

_MAX_EXACT_INTEGER = 2**53
"""Up to this value, floats represent whole numbers exactly."""
COMPARED_ENDS = 24
"""Parts at the start and at the end of a request that are used to find the nearest recording."""

_sorted = msgspec.json.Encoder(order="sorted")
_IN_PATH = re.compile(r"/models/([^/:]+):\w+$")


class RequestFingerprint(Struct, frozen=True, kw_only=True):
    """A request in the form in which it is compared."""

    group: bytes
    """Equal for requests that differ only in values that change between runs."""
    exact: bytes
    """Equal for requests that agree in those values, too."""
    parts: bytes
    """Hashes of its parts, four bytes each, to find the nearest recording."""
    model: str = ""
    """The model's name, from the address or the body."""
    shape: bytes = b""
    """Equal for requests with the same members and an equally long conversation."""
    solid: tuple[bytes | None, ...] = ()
    """Hashes of all parts, four bytes each; None for a part that contains a redaction."""
    firm: int = 0
    """Amount of text around redactions: of two recordings that match, the one with more of it is preferred."""


class RequestPart(Struct, frozen=True):
    """A member of a request, or a message of its conversation, as JSON."""

    name: str
    told: bytes
    open: bytes
    """The part without values that change between runs, but with redacted ones."""

    @property
    def lasting(self) -> bytes:
        """Return the part without values that change between runs."""
        return replace_volatile(_REDACTED_MEMBERS, self.open)


def operation(url: str) -> str:
    """Return the operation of an address: the last part of its path, without the model's name for Gemini."""
    return split_address(url).path.rstrip("/").rpartition("/")[2].rpartition(":")[2]


def request_document(dialect: str, body: bytes) -> Any:
    """Return the request as JSON, or in its JSON form; if it has none that can be read here, its bytes as text."""
    try:
        form = find_json_form(dialect)
        return json.decode(body) if form is None else form.decode_request(body)
    except (DecodeError, MissingExtraError):
        return body.decode("utf-8", "backslashreplace")


def without_volatile(dialect: str, value: Any) -> Any:
    """Remove members that do not affect the meaning of a request."""
    if not isinstance(value, dict):
        return value
    return {name: member for name, member in value.items() if name not in VOLATILE.get(dialect, ())}


def request_parts(dialect: str, value: Any, redactor: Redactor | None = None) -> Iterator[RequestPart]:
    """Yield the parts of a request that are compared. The `redactor` removes what recordings do not contain."""
    value = without_volatile(dialect, value)
    with suppress(RecursionError):  # a request nested this deeply is compared as it is
        value = _normalize_numbers(value)
    for name, written in _encode_parts(dialect, value):
        told = written if redactor is None else _redact_body(written, redactor)
        yield RequestPart(name, told, normalize_volatile_spans(told))


def _redact_body(data: bytes, redactor: Redactor) -> bytes:
    redacted, numbers = redactor.redact_body(data)
    return mark_numbers(redacted.decode(), numbers).encode() if numbers else redacted


def fingerprint_request(dialect: str, url: str, body: bytes, redactor: Redactor | None = None) -> RequestFingerprint:
    """Return the fingerprint of a request. The `redactor` removes what recordings do not contain."""
    head = f"{dialect} {operation(url)} ".encode()
    exact, group, shape = (blake2b(head, digest_size=16) for _ in range(3))
    hashes, has_hole, firm = list[bytes](), list[bool](), 0
    whole = request_document(dialect, body)
    for part in request_parts(dialect, whole, redactor):
        lasting, name = part.lasting, part.name.encode()
        hashes.append(_hash(lasting))
        has_hole.append(PLACEHOLDER_HINT in part.open)
        firm += literal_size(part.open) if has_hole[-1] else len(part.open)
        shape.update(b"%b " % name)
        for summed, data in ((exact, part.told), (group, lasting)):
            summed.update(b"%b %d " % (name, len(data)))
            summed.update(data)
    ends = hashes if len(hashes) <= 2 * COMPARED_ENDS else [*hashes[:COMPARED_ENDS], *hashes[-COMPARED_ENDS:]]
    solid = [None if hole else each for each, hole in zip(hashes, has_hole, strict=True)] if any(has_hole) else hashes
    return RequestFingerprint(
        group=group.digest(),
        exact=exact.digest(),
        parts=b"".join(ends),
        model=_request_model(url, whole),
        shape=shape.digest(),
        solid=tuple(solid),
        firm=firm,
    )


def _normalize_numbers(value: Any) -> Any:
    """Convert whole floats to integers: libraries differ in writing 1 or 1.0."""
    if isinstance(value, dict):
        return {name: _normalize_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT_INTEGER else value


def _encode_parts(dialect: str, value: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the members of a request sorted by name, then the messages of its conversation one by one, as JSON that
    does not depend on the order of members."""
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


def _request_model(url: str, value: Any) -> str:
    in_path = _IN_PATH.search(split_address(url).path)
    named = unquote(in_path[1]) if in_path else value.get("model") if isinstance(value, dict) else None
    return named if isinstance(named, str) else ""


def matches_redacted(then: Sequence[RequestPart], now: Sequence[RequestPart]) -> bool:
    """Return whether a recorded request equals this one except for its redactions."""
    return len(then) == len(now) and all(
        one.name == other.name and (one.lasting == other.lasting or matches_text(one.open, other.open))
        for one, other in zip(then, now, strict=True)
    )


def redaction_gap(then: RequestFingerprint, now: RequestFingerprint) -> tuple[bool, int]:
    """Return how much of a request the redactions of a recorded one would have to replace. A recording with more text
    around its redactions than the request has can hardly be the same."""
    return then.firm > now.firm, abs(now.firm - then.firm)


def likeness(one: RequestFingerprint, other: RequestFingerprint) -> tuple[int, int]:
    """Return how much two requests have in common, then how little the second has in addition."""
    parts, others = (set(memoryview(each.parts).cast("I")) for each in (one, other))
    return len(parts & others), -len(others)


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=4).digest()
