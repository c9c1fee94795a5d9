"""JSON in and out, strict about what it reads.

`decode` refuses what is ambiguous or dangerous in a whole document: invalid UTF-8, lone surrogates, NaN, duplicate
keys, absurd depth, absurd size. Every refusal is a `DecodeError` that says where, as long as the place is found without
much work: whoever sends what is refused does not decide how long it is looked at. `decode_frame` is the same for one
event of a stream, where speed counts and a duplicate key is not worth a second look.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NoReturn, TypeVar

import msgspec

from toolglot.errors import DecodeError
from toolglot.wire import incremental_encode, incremental_json

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""A document larger than this is refused unless the caller raises the limit. A gateway takes half of it, as Anthropic
does, unless `limits.body` says otherwise."""

MAX_CONTAINERS = 500_000
"""So many objects and arrays are more than any model reads. To build them costs a hundred times what their bytes do."""

MAX_MEMBERS = 500_000
"""Members of all objects of a document. Each takes two microseconds to build, twenty times what an element of an array
does, and some hundred bytes of memory. A hundred thousand messages with one part each have 400,000."""

MAX_VALUES = 2_000_000
"""Members and elements of a document."""

ANSWER_FACTOR = 4
"""So many times as many a whole answer may have: log probabilities are many small values, and upstreams are chosen by
the operator."""

_QUOTE = ord('"')
_COUNTED_FROM = 256 * 1024
"""No smaller document is worth counting."""

_SHORT = 4096
"""Characters that take no time to read."""

_SEARCH_WINDOW = 4 * 1024 * 1024
"""Bytes behind a place up to which all is well, in which that must stand which is wrong."""

_MAX_TOKENS = 200_000
"""So many tokens are read in search of a place, a tenth of a second's work; the documents of clients have far fewer."""

TOO_DEEP = "the JSON is nested too deeply"

encode = msgspec.json.Encoder().encode
"""A JSON value as compact UTF-8 bytes."""


_decode_any = msgspec.json.Decoder().decode
_check_syntax = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads all of a document and builds nothing. It does not see numbers out of range and invalid UTF-8."""

T = TypeVar("T")


def encode_document(value: Any, used_up: str = "") -> bytes:
    """The same for a value that may be large: in slices, where others wait for the interpreter. The array that is the
    member `used_up` may be empty afterwards."""
    return incremental_encode.encode(value, used_up) if incremental_json.shares_interpreter() else encode(value)


def encode_text(value: Any) -> str:
    """A JSON value as compact text."""
    return encode(value).decode()


def to_bytes(data: bytes | str | Mapping[str, Any]) -> bytes:
    """A document given as bytes, as text or as parsed JSON, as bytes."""
    if type(data) is bytes:
        return data
    if isinstance(data, str):
        return data.encode("utf-8", "surrogatepass")
    return encode(data) if isinstance(data, Mapping) else bytes(data)


def decode_answer(data: bytes | str) -> Any:
    """The value of an upstream's whole answer, which may have more values than a request. Raises as `decode` does."""
    return decode(data, factor=ANSWER_FACTOR)


def decode(data: bytes | str, limit: int = MAX_DOCUMENT_BYTES, factor: int = 1) -> Any:
    """The value of a whole JSON document, with `factor` times as many values as a request may have.

    Raises:
        DecodeError: it is not JSON, or not JSON that one can rely on.
    """
    raw = to_bytes(data)
    if len(raw) > limit:
        raise DecodeError("$", f"the document has {len(raw)} bytes, more than the limit of {limit}")
    if incremental_json.is_large(raw):
        _refuse_oversized(raw, factor)
        reading = incremental_json.IncrementalReader(raw)
        try:
            value = reading.read_document()
        except incremental_json.IrregularJsonError as irregular:
            _refuse_irregular(raw, irregular)
        else:
            if reading.has_repeated_key:
                _refuse_duplicate_keys(raw)
            return value
    value = _decode_at_once(raw)
    try:
        encoded = encode(value)
    except RecursionError:  # writing needs a little more room than reading
        raise DecodeError("$", TOO_DEEP) from None
    # A compact document without duplicate keys encodes to the same bytes again. Others differ through whitespace,
    # escapes and the spelling of numbers, but only a key that was dropped takes its colon with it.
    if encoded != raw and incremental_json.count_colons(raw) != encoded.count(b":"):
        _refuse_duplicate_keys(raw)
    return value


def _refuse_irregular(raw: bytes, irregular: incremental_json.IrregularJsonError) -> None:
    """Refuse a document that is all right up to a place, and wrong from there on, if it is wrong at all."""
    if irregular.at is not None:
        try:
            _decode_any(incremental_json.join_bytes(irregular.opened, memoryview(raw)[irregular.at :]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise explain(raw, error, irregular.at, irregular.at - len(irregular.opened)) from None


def decode_frame(raw: bytes) -> Any:
    """The value of one JSON frame; of duplicate keys the last one counts."""
    if len(raw) > _COUNTED_FROM:
        _refuse_oversized(raw)
        if incremental_json.is_large(raw):
            try:
                return incremental_json.IncrementalReader(raw).read_document()
            except incremental_json.IrregularJsonError as irregular:
                _refuse_irregular(raw, irregular)
    return _decode_at_once(raw)


def _decode_at_once(raw: bytes) -> Any:
    try:
        return _decode_any(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explain(raw, error) from None


class _ValueCounts(msgspec.Struct):
    """How many values a document has, counted by its marks."""

    containers: int = 0
    members: int = 0
    commas: int = 0

    def add(self, raw: bytes, start: int, end: int) -> None:
        self.containers += raw.count(b"{", start, end) + raw.count(b"[", start, end)
        self.members += raw.count(b":", start, end)
        self.commas += raw.count(b",", start, end)

    def problem(self, factor: int) -> str | None:
        if self.containers > MAX_CONTAINERS * factor:
            return f"the document has more than {MAX_CONTAINERS * factor} objects and arrays"
        if self.members > MAX_MEMBERS * factor:
            return f"the objects of the document have more than {MAX_MEMBERS * factor} members together"
        if self.commas + self.containers > MAX_VALUES * factor:
            return f"the document has more than {MAX_VALUES * factor} values"
        return None


def _refuse_oversized(raw: bytes, factor: int = 1) -> None:
    """Refuse more values than anybody means. Marks in texts do not count."""
    most = _ValueCounts()
    for at in range(0, len(raw), incremental_json.PIECE):
        most.add(raw, at, at + incremental_json.PIECE)
    if most.problem(factor) is None:
        return
    crowd = _ValueCounts()
    for bare in _without_strings(raw):
        crowd.add(bare, 0, len(bare))
        if (problem := crowd.problem(factor)) is not None:
            raise DecodeError("$", problem)


def _without_strings(raw: bytes) -> Iterator[bytes]:
    """What stands outside the strings of a document, piece by piece: whoever decodes in a thread lets go of the
    interpreter in between."""
    at, inside = 0, False
    while at < len(raw):
        end = at + incremental_json.SLICE
        while raw[end - 1 : end] == b"\\" and end < len(raw):  # no escape is cut
            end += 1
        parts = raw[at:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        at = end


def decode_typed(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """One frame, decoded by a typed decoder."""
    if len(raw) > _COUNTED_FROM:
        _refuse_oversized(raw, ANSWER_FACTOR)
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explain(raw, error) from None


_BYTE_OFFSET = re.compile(r" \(byte (\d+)\)")
_ERROR_PATH = re.compile(r" - at `(.*)`")


def explain(raw: bytes, error: Exception, since: int = 0, shift: int = 0) -> DecodeError:
    """Why these bytes could not be decoded, and at which path. All is well up to `since`, and the places that the error
    tells are `shift` bytes short of those in the document."""
    if isinstance(error, RecursionError):
        return DecodeError("$", TOO_DEEP)
    if not raw or raw.isspace():
        return DecodeError("$", "a JSON document is expected, and nothing is there")
    if (invalid := _invalid_utf8(raw)) is not None:
        return DecodeError(path_at(raw, invalid), f"invalid UTF-8 at byte {invalid}")
    message = str(error)
    if message.partition(" - ")[0].endswith("out of range"):
        return DecodeError(path_at(raw, _number_out_of_range(raw, since)), "a number that is out of range")
    if at := _ERROR_PATH.search(message):
        return DecodeError(at[1], message[: at.start()])
    # The parser speaks of a truncated document or an invalid pair; the reader wants to know which half stands alone.
    if ("truncated" in message or "surrogate" in message) and (surrogate := _lone_surrogate(raw, since)):
        return DecodeError(path_at(raw, surrogate), f"a lone surrogate at byte {surrogate} is not Unicode text")
    if byte := _BYTE_OFFSET.search(message):
        place = int(byte[1]) + shift
        return DecodeError(path_at(raw, place), _BYTE_OFFSET.sub(f" (byte {place})", message))
    return DecodeError(path_at(raw, len(raw)), f"{message} (byte {len(raw)})")


def _invalid_utf8(raw: bytes) -> int | None:
    """Where the first byte stands that is no UTF-8."""
    decoder = getincrementaldecoder("utf-8")()
    for at in range(0, len(raw), incremental_json.PIECE):
        held = len(decoder.getstate()[0])  # of a character that began in the piece before
        try:
            decoder.decode(raw[at : at + incremental_json.PIECE], final=at + incremental_json.PIECE >= len(raw))
        except UnicodeDecodeError as invalid:
            return at - held + invalid.start
    return None


_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!%b)|[c-fC-F][0-9a-fA-F]{2}(?<!%b%b))" % (_LOW, _HIGH, _LOW)
)


def _lone_surrogate(raw: bytes, since: int) -> int:
    """Where the first escaped surrogate stands that has no partner; 0 when none does."""
    # Of a run of backslashes all pairs mean one backslash each; only what is left over begins an escape.
    near = raw[since : since + _SEARCH_WINDOW] if since else raw
    lone = _LONE_SURROGATE.search(near.replace(rb"\\", b"  "))
    return since + lone.start() if lone is not None else 0


# Possessive, so that a long string costs no memory for ways back that are never taken. One that does not end reaches to
# the end, so that it is not tried again from every quote in it.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NUMBER = re.compile(_STRING.pattern + rb"|-?\d[\d.eE+-]*", re.DOTALL)


_HUGE_EXPONENT = re.compile(rb"[eE]\+?\d{3}")


def _may_be_out_of_range(raw: bytes) -> bool:
    """Whether there may be a number that no machine number can hold."""
    pieces = range(0, len(raw), incremental_json.PIECE)
    return any(_HUGE_EXPONENT.search(raw, at, at + incremental_json.PIECE + 5) is not None for at in pieces)


def _number_out_of_range(raw: bytes, since: int) -> int:
    """Where the first number stands that no machine number can hold; 0 when that is not soon found."""
    for match in islice(_NUMBER.finditer(raw, since), _MAX_TOKENS):
        try:
            _decode_any(match[0])
        except msgspec.DecodeError:
            return match.start()
    return 0


_INSIDE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_TOKEN = re.compile(rb'"%b("?)|[{}\[\],:]' % _INSIDE.pattern, re.DOTALL)


def _tokens(raw: bytes, end: int) -> Iterator[tuple[bytes, slice]]:
    """The strings up to there and the marks between them: how each begins, and where it stands. A long string is gone
    through in pieces."""
    at = 0
    while at < end:
        stop = min(at + incremental_json.PIECE, end)
        found = _TOKEN.search(raw, at, stop)
        if found is None:
            at = stop
            continue
        at = found.end() if found[1] != b"" else _string_end(raw, found.end(), end)
        yield raw[found.start() : found.start() + 1], slice(found.start(), at)


def _string_end(raw: bytes, at: int, end: int) -> int:
    while at < end:
        found = _INSIDE.match(raw, at, min(at + incremental_json.PIECE, end))
        assert found is not None
        at = found.end()
        if at < end and raw[at] == _QUOTE:
            return at + 1
        if found.end() == found.start():  # a backslash at the end of the bytes, or of a piece
            at += 2
    return end


def object_of(text: str) -> msgspec.Raw | None:
    """Tool-call arguments as a JSON object to splice into a document, on one line; None when they are not one.

    Numbers and key order stay as they were written. No arguments at all, or null for them, are the empty object.
    """
    if text.strip() in ("", "null"):
        return msgspec.Raw(b"{}")
    raw = text.encode("utf-8", "surrogatepass")
    try:
        if len(raw) > incremental_json.SLICE and raw.isascii() and not _may_be_out_of_range(raw):
            # Nothing is built of it: a million members take seconds otherwise, in one call.
            if not raw.lstrip().startswith(b"{") or not _check_syntax(raw):
                return None
        elif type(decode_frame(raw)) is not dict:
            return None
    except (msgspec.MsgspecError, DecodeError, RecursionError):
        return None
    return msgspec.Raw(msgspec.json.format(raw, indent=-1) if b"\n" in raw or b"\r" in raw else raw)


def plain_object(text: str) -> msgspec.Raw | None:
    """The same for arguments about which there is nothing to tell, as nearly all are: a small object on one line, in
    which no key stands twice. None for all others."""
    if text[:1] != "{" or "\n" in text or "\r" in text:
        return None
    try:
        raw = text.encode()
        if incremental_json.is_large(raw) or type(value := _decode_any(raw)) is not dict:
            return None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if text.count(":") > 1 and raw.count(b":") != encode(value).count(b":") else msgspec.Raw(raw)


def is_object(text: str) -> bool:
    """Would `object_of` find an object here?"""
    if len(text) <= _SHORT:
        try:
            if type(_decode_any(text)) is dict:
                return True
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return object_of(text) is not None


def has_repeated_key(text: str) -> bool:
    """Does a key stand twice in an object of this JSON text? False for what is not JSON."""
    if text.count(":") < 2:
        return False
    raw = text.encode("utf-8", "surrogatepass")
    try:
        if incremental_json.is_large(raw):
            reading = incremental_json.IncrementalReader(raw)
            reading.read_document()
            return reading.has_repeated_key
        return incremental_json.count_colons(raw) != encode(_decode_any(raw)).count(b":")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, incremental_json.IrregularJsonError):
        return False


def repeats_a_key(text: str, value: Any) -> bool:
    """Does a key stand twice in an object of this JSON text, which says this value?"""
    return text.count(":") > encode(value).count(b":")


_members: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def replace_member(raw: bytes, key: str, value: Any) -> bytes:
    """A JSON object with one member set and every other one left as it is written."""
    members = decode_typed(raw, _members)
    return _with_member(raw, members, key, encode(value))


def replace_at(raw: bytes, place: Sequence[str], value: Any) -> bytes:
    """A JSON object with the member at this place set, if there is one; everything else stays as it is written."""
    members = decode_typed(raw, _members)
    key, *rest = place
    inside = members.get(key)
    if inside is None or (rest and not bytes(inside).lstrip().startswith(b"{")):
        return raw
    return _with_member(raw, members, key, replace_at(bytes(inside), rest, value) if rest else encode(value))


_MAX_SPLICES = 16
"""So many places are looked at for a member's value before the object is written anew."""


def _with_member(raw: bytes, members: dict[str, Any], key: str, value: bytes) -> bytes:
    """The object with these bytes as a member's value: put into the place of the old ones, white space and all."""
    if key in members:
        old = bytes(members[key])
        for found in islice(_member_pattern(key).finditer(raw), _MAX_SPLICES):
            if raw.startswith(old, found.end()):
                view = memoryview(raw)
                spliced = incremental_json.join_bytes(view[: found.end()], value, view[found.end() + len(old) :])
                # The same key may stand deeper down, or twice; then the object itself still has its old value.
                if bytes(decode_typed(spliced, _members)[key]) == value:
                    return spliced
    members[key] = msgspec.Raw(value)
    return encode(members)


@cache
def _member_pattern(key: str) -> re.Pattern[bytes]:
    return re.compile(rb'"%b"\s*:\s*' % re.escape(key.encode()))


def path_at(raw: bytes, offset: int) -> str:
    """The path of the value that `offset` lies in, as far as the bytes before it tell; `$` when they are too many."""
    stack: list[str | int | None] = []
    key: slice | None = None
    tokens = _tokens(raw, offset)
    for token, place in islice(tokens, _MAX_TOKENS):
        if token == b"{":
            stack.append(None)
        elif token == b"[":
            stack.append(0)
        elif token in b"}]":
            if stack:
                stack.pop()
        elif token == b",":
            if stack and isinstance(stack[-1], int):
                stack[-1] += 1
        elif token == b":":
            if stack and key is not None:
                stack[-1] = raw[key][1:-1].decode("utf-8", "replace")
        else:
            key = place
        if len(stack) > 64:  # deep enough for anyone's reading
            return render_path(stack)
    return render_path(stack) if next(tokens, None) is None else "$"


def render_path(parts: list[str | int | None]) -> str:
    """Path parts as text: `$.messages[0].content`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else "" if part is None else f".{part}" for part in parts)


def _refuse_duplicate_keys(raw: bytes) -> NoReturn:
    seen: list[set[bytes] | int] = []
    path: list[str | int | None] = []
    last = slice(0)
    for token, place in islice(_tokens(raw, len(raw)), _MAX_TOKENS):
        if token == b"{":
            seen.append(set())
            path.append(None)
        elif token == b"[":
            seen.append(0)
            path.append(0)
        elif token in b"}]":
            seen.pop()
            path.pop()
        elif token == b",":
            if isinstance(path[-1], int):
                path[-1] += 1
        elif token == b":":
            keys = seen[-1]
            assert isinstance(keys, set)
            name = raw[last] if b"\\" not in raw[last] else encode(_decode_any(raw[last]))
            path[-1] = _decode_any(name)
            if name in keys:
                raise DecodeError(render_path(path), "this key stands twice in its object")
            keys.add(name)
        else:
            last = place
    raise DecodeError("$", "a key stands twice in one of its objects")
