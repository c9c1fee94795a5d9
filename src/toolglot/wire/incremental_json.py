"""Decodes large JSON documents in slices.

The parser does not yield during one call. On tens of megabytes, other threads wait for the interpreter until the call
ends. Here the same document is decoded in many short calls. The parser still determines what is valid: each slice is a
run of whole values that it decodes, and only the bytes between slices are examined here. Anything unexpected raises
`IrregularJsonError`; the caller then decodes the document in one call, which reports the error.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from io import BytesIO
from threading import local
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

SLICE = 128 * 1024
"""Bytes of a document per call: a millisecond or two, if they are many small values."""
PIECE = 1024 * 1024
"""Bytes of one string per call; a string is less work."""
LARGE = 4 * 1024 * 1024
"""Bytes of text that may be decoded in one call, which takes some milliseconds."""
VALUE_COST = 40
"""Bytes of text that take as long as one more value."""
MAX_VALUES = 40_000
"""Quotes or commas of a document that may be decoded in one call: twenty thousand members of objects take 40 ms."""
_FREED_PER_CALL = 200
"""Values that are freed in one call."""
_SCANNED_LEVELS = 8
"""Nesting levels of a value that are scanned for its end. A deeper value is read level by level."""


class _ThreadState(local):
    is_shared = False


_thread = _ThreadState()


def share_interpreter() -> None:
    """Declare that other threads wait for the interpreter while this thread works on large documents."""
    _thread.is_shared = True


def shares_interpreter() -> bool:
    return _thread.is_shared


_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _bracket_content() -> bytes:
    """Build the pattern of the content of brackets. Every quantifier is possessive, so nothing matches in two ways."""
    inside = rb'(?:[^"\[\]{}]++|%b|(?!))*+' % _STRING
    for _ in range(_SCANNED_LEVELS):
        inside = rb'(?:[^"\[\]{}]++|%b|[\[{]%b[\]}]|(?!))*+' % (_STRING, inside)
    return inside


_CONTAINER = rb"[\[{]%b[\]}]" % _bracket_content()


@cache  # compiling takes milliseconds, and many processes never read a large document
def _members_pattern() -> re.Pattern[bytes]:
    """Build a pattern that matches as many members of an object or array as possible, each with the comma after it."""
    return re.compile(rb'(?:(?:[^"\[\]{},]++|%b|%b|(?!))++,|(?!))*+' % (_STRING, _CONTAINER), re.DOTALL)


@cache
def _value_pattern() -> re.Pattern[bytes]:
    """Build a pattern that matches one value."""
    return re.compile(rb'(?:%b|%b|[^"\[\]{},\s]++)' % (_STRING, _CONTAINER), re.DOTALL)


_HEX, _HIGH, _LOW = rb"[0-9a-fA-F]", rb"u[dD][89abAB]", rb"u[dD][c-fC-F]"
_PAIR = rb"%b%b{2}\\%b%b{2}" % (_HIGH, _HEX, _LOW, _HEX)
_ESCAPE = rb"\\(?:[^u]|%b|(?!%b)u%b{4})" % (_PAIR, _HIGH, _HEX)
_TEXT = re.compile(rb'[^"\\]*+(?:%b[^"\\]*+|(?!))*+' % _ESCAPE, re.DOTALL)
"""Matches the content of a string, up to an incomplete escape."""
_SPACE = re.compile(rb"[ \t\n\r]*+")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_decode_raws = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_CLOSING = {b"[": (b"]", b"[0,"), b"{": (b"}", b'{"":0,')}
"""For each bracket: the closing one, and the start of a document in which earlier members were read already."""
_OPEN_VALUE = {b"]": b"[", b"}": b'{"":'}
"""For each closing bracket: the start of a document up to the value of a member."""


class IrregularJsonError(Exception):
    """The document is not plainly the expected JSON. It is valid up to `at` (None if unknown). `opened` followed by the
    rest of the document has the same error as the document."""

    def __init__(self, at: int | None = None, opened: bytes = b"") -> None:
        self.at = at
        self.opened = opened


class IncrementalReader:
    """Reads one document. `has_repeated_key` is True if one of its objects repeats a key."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.has_repeated_key = False

    def read_document(self) -> Any:
        try:
            value, end = self._read_value(self._skip_space(0))
        except _ERRORS:
            raise IrregularJsonError from None
        self._check_end(end)
        return value

    def read_members(
        self, key: str, values: list[T], some: Callable[[bytes], list[T]], one: Callable[[memoryview], T]
    ) -> dict[str, msgspec.Raw]:
        """Return all other members of the document as raw JSON, and append the elements of the member `key` to
        `values`."""
        raw, view, others = self._raw, memoryview(self._raw), dict[str, msgspec.Raw]()
        found = False

        def several(start: int, end: int) -> None:
            others.update(_decode_raws(b"{%b}" % raw[start:end]))

        def element(start: int) -> int:
            end = self._value_end(start)
            values.append(one(view[start:end]))
            return end

        def member(start: int) -> int:
            nonlocal found
            name, at = self._read_key(start)
            if name != key or raw[at : at + 1] != b"[":
                end = self._value_end(at)
                others[name] = msgspec.Raw(view[at:end])
                return end
            found = True
            values.clear()
            return self._walk(at, lambda start, end: values.extend(some(b"[%b]" % raw[start:end])), element)

        at = self._skip_space(0)
        if raw[at : at + 1] != b"{":
            raise IrregularJsonError
        self._check_end(self._walk(at, several, member))
        if key in others and memoryview(others[key])[:1].tobytes() == b"[":  # it was part of a run of small members
            values += some(bytes(others.pop(key)))
        elif not found:
            raise IrregularJsonError  # it is missing, or not an array
        return others

    def _check_end(self, end: int) -> None:
        if self._skip_space(end) != len(self._raw):
            raise IrregularJsonError(end, b"0")

    def _skip_space(self, at: int) -> int:
        found = _SPACE.match(self._raw, at)
        assert found is not None
        return found.end()

    def _read_key(self, at: int) -> tuple[str, int]:
        """Return the next key, and the offset where its value begins."""
        at = self._skip_space(at)
        if self._raw[at : at + 1] != b'"':
            raise IrregularJsonError
        try:
            key, end = self._read_value(at)
        except IrregularJsonError:
            raise IrregularJsonError from None  # `_walk` adds the position of the member
        end = self._skip_space(end)
        if self._raw[end : end + 1] != b":":
            raise IrregularJsonError
        return key, self._skip_space(end + 1)

    def _read_value(self, at: int) -> tuple[Any, int]:
        """Return the value that begins here, and the offset where it ends."""
        end = self._small_value_end(at)
        if end is not None:
            return self._decode_small(self._raw[at:end]), end
        begin = self._raw[at : at + 1]
        if begin == b"[":
            return self._read_array(at)
        if begin == b"{":
            return self._read_object(at)
        if begin == b'"':
            return self._read_text(at)
        raise IrregularJsonError

    def _small_value_end(self, at: int) -> int | None:
        """Return the offset where the value that begins here ends, if it is small; otherwise None."""
        found = _value_pattern().match(self._raw, at, at + SLICE)
        is_whole = found is not None and (found.end() < at + SLICE or self._raw[at] in b'"[{')
        return found.end() if found is not None and is_whole else None

    def _value_end(self, at: int) -> int:
        """Return the offset where the value that begins here ends, regardless of its size."""
        end = self._small_value_end(at)
        if end is not None:
            return end
        begin = self._raw[at : at + 1]
        if begin == b'"':
            *_, last = (at, *self._piece_ends(at))
            return last + 1
        if begin == b"[":
            return self._walk(at, lambda start, end: None, self._value_end)
        if begin == b"{":
            return self._walk(at, lambda start, end: None, lambda start: self._value_end(self._read_key(start)[1]))
        raise IrregularJsonError

    def _decode_small(self, raw: bytes) -> Any:
        value = _decode(raw)
        encoded = _encode(value)
        if encoded != raw and count_colons(raw) != encoded.count(b":"):
            self.has_repeated_key = True
        return value

    def _read_array(self, at: int) -> tuple[list[Any], int]:
        raw, values = self._raw, list[Any]()

        def element(start: int) -> int:
            value, end = self._read_value(start)
            values.append(value)
            return end

        end = self._walk(at, lambda start, end: values.extend(self._decode_small(b"[%b]" % raw[start:end])), element)
        return values, end

    def _read_object(self, at: int) -> tuple[dict[str, Any], int]:
        raw, members = self._raw, dict[str, Any]()

        def several(start: int, end: int) -> None:
            some: dict[str, Any] = self._decode_small(b"{%b}" % raw[start:end])
            self.has_repeated_key |= not members.keys().isdisjoint(some)
            members.update(some)

        def member(start: int) -> int:
            key, at = self._read_key(start)
            self.has_repeated_key |= key in members
            members[key], end = self._read_value(at)
            return end

        return members, self._walk(at, several, member)

    def _walk(self, at: int, several: Callable[[int, int], None], one: Callable[[int], int]) -> int:
        """Visit the members of the object or array that begins here and return the offset of its end. `several` gets a
        run of small members that fits a slice; `one` gets a single member and returns its end."""
        raw, opening = self._raw, self._raw[at : at + 1]
        closing, next_opening = _CLOSING[opening]
        at = start = self._skip_space(at + 1)
        if raw[at : at + 1] == closing:
            return at + 1
        try:
            while True:
                start = at
                run = _members_pattern().match(raw, at, at + SLICE)
                if run is not None and run.end() > at:
                    several(at, run.end() - 1)
                    at = self._skip_space(run.end())
                else:
                    at = self._skip_space(one(at))
                    if raw[at : at + 1] == closing:
                        return at + 1
                    if raw[at : at + 1] != b",":
                        raise IrregularJsonError
                    at = self._skip_space(at + 1)
                opening = next_opening
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise IrregularJsonError(start, opening) from None
        except IrregularJsonError as irregular:
            if irregular.at is None:
                raise IrregularJsonError(start, opening) from None
            raise IrregularJsonError(irregular.at, _OPEN_VALUE[closing] + irregular.opened) from None

    def _read_text(self, at: int) -> tuple[str, int]:
        """Read a long string piece by piece."""
        # CPython extends a string in place if there is no other reference to it, so nothing is copied again.
        text, start = "", at + 1
        try:
            for cut in self._piece_ends(at):
                text += _decode(b'"%b"' % self._raw[start:cut])
                start = cut
        except (*_ERRORS, IrregularJsonError):
            raise IrregularJsonError(start, b'"') from None
        return text, start + 1

    def _piece_ends(self, at: int) -> Iterator[int]:
        """Yield the offsets where the pieces of a string end. No character and no escape is cut."""
        at += 1
        while self._raw[at : at + 1] != b'"':
            at = self._piece_end(at)
            yield at

    def _piece_end(self, at: int) -> int:
        raw, cut = self._raw, self._raw.find(b'"', at, at + PIECE)
        if cut < 0:
            cut = min(at + PIECE, len(raw))
        if raw.find(b"\\", at, cut) >= 0:
            found = _TEXT.match(raw, at, at + PIECE)
            assert found is not None
            cut = found.end()
        if raw[cut : cut + 1] != b'"':
            while cut > at and cut < len(raw) and raw[cut] & 0xC0 == 0x80:
                cut -= 1
        if cut <= at:
            raise IrregularJsonError
        return cut


def count_colons(raw: bytes) -> int:
    """Count the colons of a document, in strings and between keys and values, including escaped ones (`\\u003a`)."""
    escapes = raw.replace(b"\\\\", b"") if b"\\u003" in raw else b""
    return raw.count(b":") + escapes.count(b"\\u003a") + escapes.count(b"\\u003A")


def allocate_buffer(size: int) -> BytesIO:
    """Return a buffer for this many bytes that returns its content without copying it. All memory is reserved at once
    but not touched; a buffer that grows would be copied repeatedly."""
    return BytesIO(bytes(size))


def join_bytes(*parts: bytes | memoryview) -> bytes:
    """Join bytes as `b"".join(parts)` does, in several short calls."""
    size = sum(map(len, parts))
    if size <= PIECE or len(parts) == 1:
        return b"".join(parts)
    out = allocate_buffer(size)
    for part in parts:
        view = memoryview(part)
        for at in range(0, len(part), PIECE):
            out.write(view[at : at + PIECE])
    return out.getvalue()


def decode_utf8(raw: bytes) -> str:
    """Decode bytes as `raw.decode()` does, in several short calls."""
    decode, text = getincrementaldecoder("utf-8")().decode, ""
    for at in range(0, len(raw), PIECE):
        text += decode(raw[at : at + PIECE], at + PIECE >= len(raw))
    return text


def append_text(text: str, more: str, start: int = 0) -> str:
    """Append text as `text + more[start:]` does, in several short calls."""
    for at in range(start, len(more), PIECE):
        text += more[at : at + PIECE]
    return text


def drain(values: list[T]) -> Iterable[T]:
    """Return the values of a list. A long list is emptied after its last value.

    Freeing a hundred thousand values in one call takes long. Freeing each value during the iteration delays the garbage
    collector, which subtracts freed objects from its count of new ones.
    """
    return values if len(values) <= _FREED_PER_CALL else _drain_long(values)


def _drain_long(values: list[T]) -> Iterator[T]:
    yield from values
    clear_list(values)


def clear_list(values: list[Any]) -> None:
    """Empty a list as `values.clear()` does, in several short calls."""
    while values:
        del values[-_FREED_PER_CALL:]


def contains(raw: bytes, part: bytes) -> bool:
    """Whether `part in raw`, in several short calls."""
    return any(raw.find(part, at, at + PIECE + len(part)) >= 0 for at in range(0, len(raw), PIECE))


def is_large(raw: bytes) -> bool:
    """Return whether decoding in one call would take long, because of many bytes or many values."""
    size = len(raw)
    if size > LARGE:
        return True
    # Counting takes as long as parsing, so skip it if the document is too small to have that many values: a string has
    # three bytes, a value with its comma two. Each comma brings at most two strings, and commas are fewer than quotes.
    if size <= MAX_VALUES * 3 // 2 or (commas := raw.count(b",")) <= MAX_VALUES // 4:
        return False
    return commas > MAX_VALUES or raw.count(b'"') > MAX_VALUES
