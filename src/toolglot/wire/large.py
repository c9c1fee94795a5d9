"""Large JSON documents in slices.

One call of the parser on tens of megabytes is not interrupted: whoever waits for the interpreter in another thread
waits until it is over. Here the same document is read and written as many short calls. What a document means and which
ones are taken is the parser's matter as ever: each slice is whole values that it reads, and only what stands between
slices is looked at here. Whatever does not look right (`Irregular`) is left to the one call, which says what is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

SLICE = 256 * 1024
"""Bytes of a document that are read or written in one call: some milliseconds, if they are many small values."""
PIECE = 1024 * 1024
"""Bytes of one string that are, which is less work."""
LARGE = 4 * 1024 * 1024
"""Bytes of text that are read in one call, which takes some milliseconds."""
VALUE = 40
"""Bytes of text that take as long as one value more."""
_NESTED = 8
"""Levels below a value that are looked through in search of its end; what is deeper is read level by level."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _inside() -> bytes:
    """What may stand in brackets. Everything is possessive: nothing is tried in two ways."""
    inside = rb'(?:[^"\[\]{}]++|%b)*+' % _STRING
    for _ in range(_NESTED):
        inside = rb'(?:[^"\[\]{}]++|%b|[\[{]%b[\]}])*+' % (_STRING, inside)
    return inside


_CONTAINER = rb"[\[{]%b[\]}]" % _inside()


@cache  # to make these takes milliseconds, and many a process has nothing large to read
def _run() -> re.Pattern[bytes]:
    """Members of an object or an array with the comma behind each, as many as there are."""
    return re.compile(rb'(?:(?:[^"\[\]{},]++|%b|%b)++,)*+' % (_STRING, _CONTAINER), re.DOTALL)


@cache
def _small() -> re.Pattern[bytes]:
    """One value."""
    return re.compile(rb'(?:%b|%b|[^"\[\]{},\s]++)' % (_STRING, _CONTAINER), re.DOTALL)


_HEX, _HIGH, _LOW = rb"[0-9a-fA-F]", rb"u[dD][89abAB]", rb"u[dD][c-fC-F]"
_PAIR = rb"%b%b{2}\\%b%b{2}" % (_HIGH, _HEX, _LOW, _HEX)
_ESCAPE = rb"\\(?:[^u]|%b|(?!%b)u%b{4})" % (_PAIR, _HIGH, _HEX)
_TEXT = re.compile(rb'[^"\\]*+(?:%b[^"\\]*+)*+' % _ESCAPE, re.DOTALL)
"""The text of a string, up to an escape that is not all there."""
_SPACE = re.compile(rb"[ \t\n\r]*+")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Irregular(Exception):  # noqa: N818
    """This is not plainly the JSON that was expected."""


class Reading:
    """A document that is being read. `repeats`: a key stands twice in one of its objects."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.repeats = False

    def document(self) -> Any:
        try:
            value, end = self._value(self._after_space(0))
        except _ERRORS:
            raise Irregular from None
        if self._after_space(end) != len(self._raw):
            raise Irregular
        return value

    def elements(self, key: str, decode: Callable[[bytes], list[T]]) -> list[T]:
        """The elements of the array that is this member of the document, as a decoder of arrays reads them."""
        at = self._after_space(0)
        if self._raw[at : at + 1] != b"{":
            raise Irregular
        found: list[T] | None = None
        while found is None:
            name, at = self._key(at + 1)
            if name == key and self._raw[at : at + 1] == b"[":
                found, _ = self._array(at, decode)
                break
            at = self._after_space(self._end(at))
            if self._raw[at : at + 1] != b",":
                raise Irregular
        return found

    def _after_space(self, at: int) -> int:
        found = _SPACE.match(self._raw, at)
        assert found is not None
        return found.end()

    def _key(self, at: int) -> tuple[str, int]:
        """The key that comes next, and where its value begins."""
        at = self._after_space(at)
        if self._raw[at : at + 1] != b'"':
            raise Irregular
        key, end = self._value(at)
        end = self._after_space(end)
        if self._raw[end : end + 1] != b":":
            raise Irregular
        return key, self._after_space(end + 1)

    def _value(self, at: int) -> tuple[Any, int]:
        """The value that begins here, and where it ends."""
        raw = self._raw
        found = _small().match(raw, at, at + SLICE)
        if found is not None and (found.end() < at + SLICE or raw[at] in b'"[{'):
            return self._small(found[0]), found.end()
        begin = raw[at : at + 1]
        if begin == b"[":
            return self._array(at, self._small_array)
        if begin == b"{":
            return self._object(at)
        if begin == b'"':
            return self._text(at)
        raise Irregular

    def _end(self, at: int) -> int:
        """Where the value ends that begins here and is not wanted."""
        found = _small().match(self._raw, at, at + SLICE)
        return found.end() if found is not None and found.end() < at + SLICE else self._value(at)[1]

    def _small(self, raw: bytes) -> Any:
        value = _decode(raw)
        encoded = _encode(value)
        if encoded != raw and colons(raw) != encoded.count(b":"):
            self.repeats = True
        return value

    def _small_array(self, raw: bytes) -> list[Any]:
        value: list[Any] = self._small(raw)
        return value

    def _array(self, at: int, decode: Callable[[bytes], list[Any]]) -> tuple[list[Any], int]:
        raw, values = self._raw, list[Any]()
        at = self._after_space(at + 1)
        if raw[at : at + 1] == b"]":
            return values, at + 1
        while True:
            run = _run().match(raw, at, at + SLICE)
            if run is not None and run.end() > at:
                values += decode(b"[%b]" % raw[at : run.end() - 1])
                at = self._after_space(run.end())
                continue
            if decode == self._small_array:
                value, end = self._value(at)
                values.append(value)
            else:
                end = self._end(at)
                values += decode(b"[%b]" % raw[at:end])
            at = self._after_space(end)
            if raw[at : at + 1] == b"]":
                return values, at + 1
            if raw[at : at + 1] != b",":
                raise Irregular
            at = self._after_space(at + 1)

    def _object(self, at: int) -> tuple[dict[str, Any], int]:
        raw, members = self._raw, dict[str, Any]()
        at = self._after_space(at + 1)
        if raw[at : at + 1] == b"}":
            return members, at + 1
        while True:
            run = _run().match(raw, at, at + SLICE)
            if run is not None and run.end() > at:
                some: dict[str, Any] = self._small(b"{%b}" % raw[at : run.end() - 1])
                self.repeats |= not members.keys().isdisjoint(some)
                members |= some
                at = self._after_space(run.end())
                continue
            key, at = self._key(at)
            self.repeats |= key in members
            members[key], end = self._value(at)
            at = self._after_space(end)
            if raw[at : at + 1] == b"}":
                return members, at + 1
            if raw[at : at + 1] != b",":
                raise Irregular
            at = self._after_space(at + 1)

    def _text(self, at: int) -> tuple[str, int]:
        """A long string, piece by piece."""
        raw, at = self._raw, at + 1
        # Added to in place: Python lets a string grow that nobody else has, so that nothing is copied again.
        text = ""
        while raw[at : at + 1] != b'"':
            cut = self._cut(at)
            text += _decode(b'"%b"' % raw[at:cut])
            at = cut
        return text, at + 1

    def _cut(self, at: int) -> int:
        """Where a piece of a string ends that begins here: not within a character, be it one that is escaped."""
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
            raise Irregular
        return cut


def colons(raw: bytes) -> int:
    """How many colons a document has, in its texts and between keys and values. `\\u003a` is one as well."""
    escapes = raw.replace(b"\\\\", b"") if b"\\u003" in raw else b""
    return raw.count(b":") + escapes.count(b"\\u003a") + escapes.count(b"\\u003A")


def room(size: int) -> BytesIO:
    """Where so many bytes are to be written; what it holds it gives without another copy. The memory is taken at once,
    yet nothing of it is touched before: where room is made bit by bit, what is there already is copied now and then."""
    return BytesIO(bytes(size))


def joined(*parts: bytes | memoryview) -> bytes:
    """`b"".join(parts)`."""
    out = room(sum(map(len, parts)))
    for part in parts:
        view = memoryview(part)
        for at in range(0, len(part), PIECE):
            out.write(view[at : at + PIECE])
    return out.getvalue()


def contains(raw: bytes, part: bytes) -> bool:
    """`part in raw`."""
    return any(raw.find(part, at, at + PIECE + len(part)) >= 0 for at in range(0, len(raw), PIECE))


def is_large(raw: bytes) -> bool:
    """Would one call take long? It does for many bytes, or for many values."""
    return len(raw) > LARGE or (len(raw) > LARGE // VALUE and raw.count(b'"') > LARGE // VALUE)


def encode(value: Any) -> bytes:
    """A value as the encoder writes it, in as many calls as it takes."""
    if _size(value, LARGE) <= LARGE:
        return _encode(value)
    out = room(_size(value, sys.maxsize))
    _write(value, out)
    out.truncate()
    return out.getvalue()


def _size(value: Any, most: int) -> int:
    """The work of writing a value, in bytes of text that take as long; looked at until it is more than `most`."""
    kind = type(value)
    if kind is str:
        return len(value) + VALUE
    if kind is dict or kind is list or kind is tuple:
        size = VALUE
        for part in value.values() if kind is dict else value:
            size += _size(part, most - size)
            if size > most:
                break
        return size
    return memoryview(value).nbytes if kind is msgspec.Raw else VALUE


def _write(value: Any, out: BytesIO) -> None:
    kind = type(value)
    if kind is dict and all(type(key) is str for key in value):
        _write_members(value, out)
    elif kind is list or kind is tuple:
        _write_elements(value, out)
    elif kind is str:
        out.write(b'"')
        for start in range(0, len(value), PIECE):
            out.write(_encode(value[start : start + PIECE])[1:-1])
        out.write(b'"')
    else:
        out.write(_encode(value))


def _write_members(value: dict[str, Any], out: BytesIO) -> None:
    before = b"{"
    for key, member in value.items():
        out.write(before + _encode(key) + b":")
        if _size(member, PIECE) <= PIECE:
            out.write(_encode(member))
        else:
            _write(member, out)
        before = b","
    out.write(b"}" if value else b"{}")


def _write_elements(value: list[Any] | tuple[Any, ...], out: BytesIO) -> None:
    before, some, size = b"[", list[Any](), 0
    for element in value:
        more = _size(element, PIECE)
        if some and size + more > PIECE:
            out.write(before + _encode(some)[1:-1])
            before, some, size = b",", [], 0
        if more > PIECE:
            out.write(before)
            _write(element, out)
            before = b","
        else:
            some.append(element)
            size += more
    if some:
        out.write(before + _encode(some)[1:-1])
        before = b","
    out.write(b"]" if before == b"," else b"[]")
