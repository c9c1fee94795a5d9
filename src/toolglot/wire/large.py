"""Large JSON documents in slices.

One call of the parser on tens of megabytes is not interrupted: whoever waits for the interpreter in another thread
waits until it is over. Here the same document is read and written as many short calls. What a document means and which
ones are taken is the parser's matter as ever: each slice is whole values that it reads, and only what stands between
slices is looked at here. Whatever does not look right (`Irregular`) is left to the one call, which says what is wrong.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from threading import local
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

SLICE = 128 * 1024
"""Bytes of a document that are read or written in one call: a millisecond or two, if they are many small values."""
PIECE = 1024 * 1024
"""Bytes of one string that are, which is less work."""
LARGE = 4 * 1024 * 1024
"""Bytes of text that are read in one call, which takes some milliseconds."""
VALUE = 40
"""Bytes of text that take as long as one value more."""
VALUES = 40_000
"""Quotes or commas of a document that is read in one call: twenty thousand members of objects take 40 ms."""
_AT_ONCE = 200
"""Values that end in one call."""
_NESTED = 8
"""Levels below a value that are looked through in search of its end; what is deeper is read level by level."""


class _Thread(local):
    is_shared = False


_thread = _Thread()


def share_interpreter() -> None:
    """Say that others wait for the interpreter while this thread works on what is large."""
    _thread.is_shared = True


def shares_interpreter() -> bool:
    return _thread.is_shared


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
_decode_raws = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_BRACKETS = {b"[": (b"]", b"[0,"), b"{": (b"}", b'{"":0,')}
"""What closes each, and what a document begins with in which a member was read already."""
_OPEN = {b"]": b"[", b"}": b'{"":'}
"""What it begins with up to the value of a member."""


class Irregular(Exception):  # noqa: N818
    """This is not plainly the JSON that was expected. `at` is where it was all right up to, and `opened` what is open
    there: with that before it, what follows is wrong as it is in the document. None if nobody knows."""

    def __init__(self, at: int | None = None, opened: bytes = b"") -> None:
        self.at = at
        self.opened = opened


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
        self._finish(end)
        return value

    def members(
        self, key: str, values: list[T], some: Callable[[bytes], list[T]], one: Callable[[memoryview], T]
    ) -> dict[str, msgspec.Raw]:
        """All other members of the document, as they stand there, and the elements of this one in `values`."""
        raw, view, others = self._raw, memoryview(self._raw), dict[str, msgspec.Raw]()
        found = False

        def several(start: int, end: int) -> None:
            others.update(_decode_raws(b"{%b}" % raw[start:end]))

        def element(start: int) -> int:
            end = self._end(start)
            values.append(one(view[start:end]))
            return end

        def member(start: int) -> int:
            nonlocal found
            name, at = self._key(start)
            if name != key or raw[at : at + 1] != b"[":
                end = self._end(at)
                others[name] = msgspec.Raw(view[at:end])
                return end
            found = True
            values.clear()
            return self._walk(at, lambda start, end: values.extend(some(b"[%b]" % raw[start:end])), element)

        at = self._after_space(0)
        if raw[at : at + 1] != b"{":
            raise Irregular
        self._finish(self._walk(at, several, member))
        if key in others and memoryview(others[key])[:1].tobytes() == b"[":  # it is among small ones
            values += some(bytes(others.pop(key)))
        elif not found:
            raise Irregular  # it is not there, or no array: a text, or one object
        return others

    def _finish(self, end: int) -> None:
        if self._after_space(end) != len(self._raw):
            raise Irregular(end, b"0")

    def _after_space(self, at: int) -> int:
        found = _SPACE.match(self._raw, at)
        assert found is not None
        return found.end()

    def _key(self, at: int) -> tuple[str, int]:
        """The key that comes next, and where its value begins."""
        at = self._after_space(at)
        if self._raw[at : at + 1] != b'"':
            raise Irregular
        try:
            key, end = self._value(at)
        except Irregular:
            raise Irregular from None  # the place is known by its member
        end = self._after_space(end)
        if self._raw[end : end + 1] != b":":
            raise Irregular
        return key, self._after_space(end + 1)

    def _value(self, at: int) -> tuple[Any, int]:
        """The value that begins here, and where it ends."""
        end = self._near_end(at)
        if end is not None:
            return self._small(self._raw[at:end]), end
        begin = self._raw[at : at + 1]
        if begin == b"[":
            return self._array(at)
        if begin == b"{":
            return self._object(at)
        if begin == b'"':
            return self._text(at)
        raise Irregular

    def _near_end(self, at: int) -> int | None:
        """Where the value ends that begins here, if it is a small one."""
        found = _small().match(self._raw, at, at + SLICE)
        is_whole = found is not None and (found.end() < at + SLICE or self._raw[at] in b'"[{')
        return found.end() if found is not None and is_whole else None

    def _end(self, at: int) -> int:
        """The same for one of any size."""
        end = self._near_end(at)
        if end is not None:
            return end
        begin = self._raw[at : at + 1]
        if begin == b'"':
            *_, last = (at, *self._cuts(at))
            return last + 1
        if begin == b"[":
            return self._walk(at, lambda start, end: None, self._end)
        if begin == b"{":
            return self._walk(at, lambda start, end: None, lambda start: self._end(self._key(start)[1]))
        raise Irregular

    def _small(self, raw: bytes) -> Any:
        value = _decode(raw)
        encoded = _encode(value)
        if encoded != raw and colons(raw) != encoded.count(b":"):
            self.repeats = True
        return value

    def _array(self, at: int) -> tuple[list[Any], int]:
        raw, values = self._raw, list[Any]()

        def element(start: int) -> int:
            value, end = self._value(start)
            values.append(value)
            return end

        end = self._walk(at, lambda start, end: values.extend(self._small(b"[%b]" % raw[start:end])), element)
        return values, end

    def _object(self, at: int) -> tuple[dict[str, Any], int]:
        raw, members = self._raw, dict[str, Any]()

        def several(start: int, end: int) -> None:
            some: dict[str, Any] = self._small(b"{%b}" % raw[start:end])
            self.repeats |= not members.keys().isdisjoint(some)
            members.update(some)

        def member(start: int) -> int:
            key, at = self._key(start)
            self.repeats |= key in members
            members[key], end = self._value(at)
            return end

        return members, self._walk(at, several, member)

    def _walk(self, at: int, several: Callable[[int, int], None], one: Callable[[int], int]) -> int:
        """Go through the members of what begins here: as many small ones at once as there are in a slice, or one,
        which tells where it ends. Gives the end of all."""
        raw, opening = self._raw, self._raw[at : at + 1]
        closing, next_opening = _BRACKETS[opening]
        at = start = self._after_space(at + 1)
        if raw[at : at + 1] == closing:
            return at + 1
        try:
            while True:
                start = at
                run = _run().match(raw, at, at + SLICE)
                if run is not None and run.end() > at:
                    several(at, run.end() - 1)
                    at = self._after_space(run.end())
                else:
                    at = self._after_space(one(at))
                    if raw[at : at + 1] == closing:
                        return at + 1
                    if raw[at : at + 1] != b",":
                        raise Irregular
                    at = self._after_space(at + 1)
                opening = next_opening
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Irregular(start, opening) from None
        except Irregular as irregular:
            if irregular.at is None:
                raise Irregular(start, opening) from None
            raise Irregular(irregular.at, _OPEN[closing] + irregular.opened) from None

    def _text(self, at: int) -> tuple[str, int]:
        """A long string, piece by piece."""
        # Added to in place: Python lets a string grow that nobody else has, so that nothing is copied again.
        text, start = "", at + 1
        try:
            for cut in self._cuts(at):
                text += _decode(b'"%b"' % self._raw[start:cut])
                start = cut
        except (*_ERRORS, Irregular):
            raise Irregular(start, b'"') from None
        return text, start + 1

    def _cuts(self, at: int) -> Iterator[int]:
        """Where the pieces of a string end: not within a character, be it one that is escaped."""
        at += 1
        while self._raw[at : at + 1] != b'"':
            at = self._cut(at)
            yield at

    def _cut(self, at: int) -> int:
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
    size = sum(map(len, parts))
    if size <= PIECE or len(parts) == 1:
        return b"".join(parts)
    out = room(size)
    for part in parts:
        view = memoryview(part)
        for at in range(0, len(part), PIECE):
            out.write(view[at : at + PIECE])
    return out.getvalue()


def decoded(raw: bytes) -> str:
    """`raw.decode()`."""
    decode, text = getincrementaldecoder("utf-8")().decode, ""
    for at in range(0, len(raw), PIECE):
        text += decode(raw[at : at + PIECE], at + PIECE >= len(raw))
    return text


def extended(text: str, more: str, start: int = 0) -> str:
    """`text + more[start:]`."""
    for at in range(start, len(more), PIECE):
        text += more[at : at + PIECE]
    return text


def emptied(values: list[T]) -> Iterator[T]:
    """The values of a list, which is empty afterwards. The end of a hundred thousand in one call takes long, and one by
    one on the way it makes the garbage collector come too late: what ends is taken off its count of what is new."""
    yield from values
    drop(values)


def drop(values: list[Any]) -> None:
    """`values.clear()`."""
    while values:
        del values[-_AT_ONCE:]


def contains(raw: bytes, part: bytes) -> bool:
    """`part in raw`."""
    return any(raw.find(part, at, at + PIECE + len(part)) >= 0 for at in range(0, len(raw), PIECE))


def is_large(raw: bytes) -> bool:
    """Would one call take long? It does for many bytes, or for many values."""
    size = len(raw)
    if size > LARGE:
        return True
    # To count takes as long as to parse, so not where there is no room: a string takes three bytes, a value and its
    # comma two. With each comma come two strings at the most, and commas are fewer than quotes.
    if size <= VALUES * 3 // 2 or (commas := raw.count(b",")) <= VALUES // 4:
        return False
    return commas > VALUES or raw.count(b'"') > VALUES
