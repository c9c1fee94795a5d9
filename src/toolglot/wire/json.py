"""Decode and encode JSON strictly.

`decode` refuses ambiguous or dangerous documents: invalid UTF-8, lone surrogates, NaN, duplicate keys, excessive depth
or size. Each refusal is a `DecodeError` with the path, if the path can be found with limited work: a sender of invalid
input must not control how long the search takes. `decode_frame` does the same for one event of a stream, where speed
matters and duplicate keys are tolerated.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from math import isfinite
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec

from toolglot.errors import DecodeError
from toolglot.wire import incremental_encode, incremental_json, sdk_objects
from toolglot.wire.sdk_objects import SdkObject

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""A larger document is refused unless the caller raises the limit. The gateway's default is half of this limit, as
Anthropic does, unless `limits.body` says otherwise."""

MAX_CONTAINERS = 500_000
"""Maximum objects and arrays of a document. Building them costs a hundred times as much as their bytes.
"""

MAX_MEMBERS = 500_000
"""Maximum members of all objects of a document. Each takes two microseconds to build, twenty times as long as an
element of an array, and some hundred bytes of memory. A hundred thousand messages with one part each have 400,000.
"""

MAX_VALUES = 2_000_000
"""Maximum members and elements of a document."""

ANSWER_FACTOR = 4
"""A whole answer may have this many times more values: log probabilities are many small values, and the operator
chooses the upstreams."""

_QUOTE = ord('"')
_COUNTED_FROM = 256 * 1024
"""The values of smaller documents are not counted."""

_SHORT = 4096
"""Characters that are decoded in negligible time."""

_SEARCH_WINDOW = 4 * 1024 * 1024
"""Bytes that are searched for an error after the last position known to be valid."""

_MAX_TOKENS = 200_000
"""Maximum tokens that are read to find a path, about a tenth of a second's work. Documents of real clients have far
fewer.
"""

TOO_DEEP = "the JSON is nested too deeply"

encode = msgspec.json.Encoder().encode
"""Encode a JSON value as compact UTF-8."""


_decode_any = msgspec.json.Decoder().decode
_check_syntax = msgspec.json.Decoder(msgspec.Raw).decode
"""Parses a document without building anything. It does not detect numbers out of range and invalid UTF-8."""

T = TypeVar("T")


_LINE_SEPARATORS = {"\u0085".encode(): rb"\u0085", "\u2028".encode(): rb"\u2028", "\u2029".encode(): rb"\u2029"}
"""Characters at which some clients split a stream into lines, as bytes of a JSON string, and their escapes. The SDKs of
Ollama and Gemini for Python do, since `str.splitlines` does."""
_find_line_separator = re.compile(b"|".join(_LINE_SEPARATORS)).search


def escape_line_separators(data: bytes) -> bytes:
    """Escape the characters that are line ends for some clients, but not in JSON."""
    # A membership test for a byte is five times as fast as a search for several, and most text has neither.
    if data.isascii() or not (0xC2 in data or 0xE2 in data) or _find_line_separator(data) is None:
        return data
    for character, escape in _LINE_SEPARATORS.items():
        data = data.replace(character, escape)
    return data


def encode_frame(value: Any) -> bytes:
    """Encode a JSON value of a stream on one line, for every client."""
    return escape_line_separators(encode(value))


def encode_document(value: Any, used_up: str = "") -> bytes:
    """Encode a value that may be large, as `encode` does, but in slices if other threads wait for the interpreter. The
    array in the member `used_up` may be empty afterwards."""
    return incremental_encode.encode(value, used_up) if incremental_json.shares_interpreter() else encode(value)


def encode_text(value: Any) -> str:
    """Encode a JSON value as compact text."""
    return encode(value).decode()


def compact(text: str) -> str:
    """Remove the spaces between the tokens of JSON text. Numbers, strings and repeated keys keep their spelling."""
    return msgspec.json.format(text, indent=-1)


Document: TypeAlias = bytes | bytearray | memoryview | str | Mapping[str, Any] | SdkObject
"""A JSON document: its bytes, its text, its content as Python values, or an SDK's object."""

_encode_document = msgspec.json.Encoder(enc_hook=sdk_objects.dump).encode
"""Encode a value that may contain objects of an SDK."""


def to_bytes(data: Document | Sequence[Any]) -> bytes:
    """Convert a document to bytes.

    Raises:
        TypeError: it is not a JSON document.
        DecodeError: it contains NaN or an infinity.
    """
    if type(data) is bytes:
        return data
    if isinstance(data, str):
        return data.encode("utf-8", "surrogatepass")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, (Mapping, list, tuple)) or sdk_objects.is_sdk_object(data):
        encoded = _encode_document(dict(data) if isinstance(data, Mapping) and not isinstance(data, dict) else data)
        if b"null" in encoded:  # which msgspec writes for NaN too
            _refuse_not_finite(data, "$")
        return encoded
    kinds = "bytes, a str, parsed JSON or an SDK's object"
    raise TypeError(f"expected a JSON document as {kinds}, not {sdk_objects.describe_type(data)}")


def _refuse_not_finite(value: Any, where: str) -> None:
    """Raise if Python values contain a number that JSON does not have."""
    if isinstance(value, float) and not isfinite(value):
        raise DecodeError(where, f"{value} is no number in JSON")
    if sdk_objects.is_sdk_object(value):
        value = sdk_objects.dump(value)
    if isinstance(value, Mapping):
        for name, member in value.items():
            _refuse_not_finite(member, f"{where}.{name}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_not_finite(item, f"{where}[{index}]")


def decode_answer(data: bytes | str) -> Any:
    """Decode an upstream's whole answer, which may have more values than a request. Raises as `decode` does."""
    return decode(data, factor=ANSWER_FACTOR)


def decode(data: bytes | str, limit: int = MAX_DOCUMENT_BYTES, factor: int = 1) -> Any:
    """Decode a whole document with at most `factor` times as many values as a request may have.

    Raises:
        DecodeError: the data is not JSON, or not sound JSON.
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
    except RecursionError:  # encoding needs a little more stack than decoding
        raise DecodeError("$", TOO_DEEP) from None
    # A compact document without duplicate keys encodes to the same bytes again. Others differ in whitespace, escapes or
    # the spelling of numbers, but only a dropped key changes the number of colons.
    if encoded != raw and incremental_json.count_colons(raw) != encoded.count(b":"):
        _refuse_duplicate_keys(raw)
    return value


def _refuse_irregular(raw: bytes, irregular: incremental_json.IrregularJsonError) -> None:
    """Raise if the document is invalid after the position up to which it is known to be valid."""
    if irregular.at is not None:
        try:
            _decode_any(incremental_json.join_bytes(irregular.opened, memoryview(raw)[irregular.at :]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise explain(raw, error, irregular.at, irregular.at - len(irregular.opened)) from None


def decode_frame(raw: bytes) -> Any:
    """Decode one JSON frame. The last of duplicate keys wins."""
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
    """Number of values in a document, counted by its punctuation."""

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
    """Refuse a document with too many values. Punctuation inside strings does not count."""
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
    """Yield the bytes outside the strings of a document piece by piece, so that other threads can use the interpreter
    in between.
    """
    at, inside = 0, False
    while at < len(raw):
        end = at + incremental_json.SLICE
        while raw[end - 1 : end] == b"\\" and end < len(raw):  # do not cut an escape
            end += 1
        parts = raw[at:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        at = end


def decode_typed(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode one frame with a typed decoder."""
    if len(raw) > _COUNTED_FROM:
        _refuse_oversized(raw, ANSWER_FACTOR)
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explain(raw, error) from None


_BYTE_OFFSET = re.compile(r" \(byte (\d+)\)")
_ERROR_PATH = re.compile(r" - at `(.*)`")


def explain(raw: bytes, error: Exception, since: int = 0, shift: int = 0) -> DecodeError:
    """Build the error for bytes that could not be decoded, with the path. The bytes are valid up to `since`. Byte
    offsets in the parser's error are `shift` bytes smaller than those in the document."""
    if isinstance(error, RecursionError):
        return DecodeError("$", TOO_DEEP)
    if not raw or raw.isspace():
        return DecodeError("$", "a JSON document is expected, but the input is empty")
    if (invalid := _invalid_utf8(raw)) is not None:
        return DecodeError(path_at(raw, invalid), f"invalid UTF-8 at byte {invalid}")
    message = str(error)
    if message.partition(" - ")[0].endswith("out of range"):
        return DecodeError(path_at(raw, _number_out_of_range(raw, since)), "a number that is out of range")
    if at := _ERROR_PATH.search(message):
        return DecodeError(at[1], message[: at.start()])
    # The parser reports a truncated document or an invalid pair; say which surrogate is alone instead.
    if ("truncated" in message or "surrogate" in message) and (surrogate := _lone_surrogate(raw, since)):
        return DecodeError(path_at(raw, surrogate), f"a lone surrogate at byte {surrogate} is not Unicode text")
    if byte := _BYTE_OFFSET.search(message):
        place = int(byte[1]) + shift
        return DecodeError(path_at(raw, place), _BYTE_OFFSET.sub(f" (byte {place})", message))
    return DecodeError(path_at(raw, len(raw)), f"{message} (byte {len(raw)})")


def _invalid_utf8(raw: bytes) -> int | None:
    """Return the offset of the first byte that is not UTF-8; None if there is none."""
    decoder = getincrementaldecoder("utf-8")()
    for at in range(0, len(raw), incremental_json.PIECE):
        held = len(decoder.getstate()[0])  # bytes of a character that began in the previous piece
        try:
            decoder.decode(raw[at : at + incremental_json.PIECE], final=at + incremental_json.PIECE >= len(raw))
        except UnicodeDecodeError as invalid:
            return at - held + invalid.start
    return None


_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!%b)|[c-fC-F][0-9a-fA-F]{2}(?<!%b%b))" % (_LOW, _HIGH, _LOW)
)


def find_lone_surrogates(raw: bytes) -> list[tuple[int, int]]:
    """Return the spans of all escaped surrogates without a partner."""
    # In a run of backslashes, each pair means one backslash. Only an odd last one begins an escape.
    return [match.span() for match in _LONE_SURROGATE.finditer(raw.replace(rb"\\", b"  "))]


def replace_lone_surrogates(raw: bytes) -> tuple[bytes, int]:
    """Replace escaped surrogates without a partner with U+FFFD. Half a character at the end of a string is left out: it
    was cut there. Returns the bytes and the number of replacements."""
    spans = find_lone_surrogates(raw)
    parts: list[bytes] = []
    at = 0
    for start, end in spans:
        parts += raw[at:start], b"" if raw[end : end + 1] == b'"' else rb"\ufffd"
        at = end
    return (b"".join((*parts, raw[at:])), len(spans)) if spans else (raw, 0)


def _lone_surrogate(raw: bytes, since: int) -> int:
    """Return the offset of the first escaped surrogate without a partner; 0 if there is none."""
    # In a run of backslashes, each pair means one backslash. Only an odd last one begins an escape.
    near = raw[since : since + _SEARCH_WINDOW] if since else raw
    lone = _LONE_SURROGATE.search(near.replace(rb"\\", b"  "))
    return since + lone.start() if lone is not None else 0


# Possessive, so that a long string needs no memory for backtracking. An unterminated string matches to the end of the
# data, so that it is not tried again from every quote in it.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NUMBER = re.compile(_STRING.pattern + rb"|-?\d[\d.eE+-]*", re.DOTALL)


_HUGE_EXPONENT = re.compile(rb"[eE]\+?\d{3}")


def _may_be_out_of_range(raw: bytes) -> bool:
    """Return whether the document may have a number that no machine number can hold."""
    pieces = range(0, len(raw), incremental_json.PIECE)
    return any(_HUGE_EXPONENT.search(raw, at, at + incremental_json.PIECE + 5) is not None for at in pieces)


def _number_out_of_range(raw: bytes, since: int) -> int:
    """Return the offset of the first number that no machine number can hold; 0 if it is not found within the limit."""
    for match in islice(_NUMBER.finditer(raw, since), _MAX_TOKENS):
        try:
            _decode_any(match[0])
        except msgspec.DecodeError:
            return match.start()
    return 0


_INSIDE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_TOKEN = re.compile(rb'"%b("?)|[{}\[\],:]' % _INSIDE.pattern, re.DOTALL)


def _tokens(raw: bytes, end: int) -> Iterator[tuple[bytes, slice]]:
    """Yield the strings and punctuation up to `end`: the first byte of each token and its position. Long strings are
    read in pieces."""
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


def object_of(text: str, *, is_request: bool = False) -> msgspec.Raw | None:
    """Convert tool-call arguments to a JSON object on one line that can be spliced into a document; None if they are
    not an object. Numbers and key order keep their spelling. Empty arguments and null become the empty object. JSON
    text can hold what `object_value` cannot return: an escaped lone surrogate, and numbers out of range (RFC 8259,
    sections 6 and 8.2). In a request (`is_request`), such arguments do not count as an object, because Anthropic's
    server refuses them.
    """
    if text.strip() in ("", "null"):
        return msgspec.Raw(b"{}")
    raw = text.encode("utf-8", "surrogatepass")
    try:
        if len(raw) > incremental_json.SLICE and raw.isascii() and not _may_be_out_of_range(raw):
            # Only check the syntax: building a million members would take seconds in one call.
            if not raw.lstrip().startswith(b"{") or not _check_syntax(raw):
                return None
        elif type(decode_frame(raw)) is not dict:
            return None
    except (msgspec.MsgspecError, DecodeError, RecursionError):
        return None if is_request else _text_only_object(raw)
    return msgspec.Raw(msgspec.json.format(raw, indent=-1) if b"\n" in raw or b"\r" in raw else raw)


def _text_only_object(raw: bytes) -> msgspec.Raw | None:
    """Return the same as `object_of` for an object with values that only JSON text can hold."""
    if not raw.lstrip().startswith(b"{") or _invalid_utf8(raw) is not None:
        return None
    try:
        _check_syntax(replace_lone_surrogates(raw)[0])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return msgspec.Raw(raw.replace(b"\n", b" ").replace(b"\r", b" "))  # sound JSON has them between tokens only


def object_value(text: str) -> dict[str, Any] | None:
    """Return the value of tool-call arguments; None if they are not an object, or if no Python value can hold them."""
    raw = object_of(text)
    if raw is None:
        return None
    try:
        value: dict[str, Any] = decode_frame(bytes(raw))
    except DecodeError:
        return None
    return value


def plain_object(text: str) -> msgspec.Raw | None:
    """Return the same as `object_of`, but only for arguments that need no note, as nearly all do: a small object on one
    line without repeated keys. None for all others."""
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
    """Return whether `object_of` would return an object for this text."""
    if len(text) <= _SHORT:
        try:
            if type(_decode_any(text)) is dict:
                return True
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return object_of(text) is not None


def has_repeated_key(text: str) -> bool:
    """Return whether an object in this JSON text repeats a key. False if the text is not JSON."""
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
    """Return whether an object in this JSON text repeats a key. `value` is the decoded text."""
    return text.count(":") > encode(value).count(b":")


_members: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def replace_member(raw: bytes, key: str, value: Any) -> bytes:
    """Set one member of a JSON object. All others keep their spelling."""
    members = decode_typed(raw, _members)
    return _with_member(raw, members, key, encode(value))


def replace_at(raw: bytes, place: Sequence[str], value: Any) -> bytes:
    """Set the member at this path, if it exists. Everything else keeps its spelling."""
    members = decode_typed(raw, _members)
    key, *rest = place
    inside = members.get(key)
    if inside is None or (rest and not bytes(inside).lstrip().startswith(b"{")):
        return raw
    return _with_member(raw, members, key, replace_at(bytes(inside), rest, value) if rest else encode(value))


_MAX_SPLICES = 16
"""Maximum occurrences of the key that are tried before the whole object is encoded again."""


def _with_member(raw: bytes, members: dict[str, Any], key: str, value: bytes) -> bytes:
    """Replace the bytes of a member's value in place, so that all other bytes stay, including whitespace."""
    if key in members:
        old = bytes(members[key])
        for found in islice(_member_pattern(key).finditer(raw), _MAX_SPLICES):
            if raw.startswith(old, found.end()):
                view = memoryview(raw)
                spliced = incremental_json.join_bytes(view[: found.end()], value, view[found.end() + len(old) :])
                # The match may be a nested or repeated key; then the object's own member still has its old value.
                if bytes(decode_typed(spliced, _members)[key]) == value:
                    return spliced
    members[key] = msgspec.Raw(value)
    return encode(members)


@cache
def _member_pattern(key: str) -> re.Pattern[bytes]:
    return re.compile(rb'"%b"\s*:\s*' % re.escape(key.encode()))


def path_at(raw: bytes, offset: int) -> str:
    """Return the path of the value at `offset`, derived from the bytes before it; `$` if they are too many."""
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
        if len(stack) > 64:  # a deeper path helps no reader
            return render_path(stack)
    return render_path(stack) if next(tokens, None) is None else "$"


def render_path(parts: list[str | int | None]) -> str:
    """Format a path: `$.messages[0].content`."""
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
                raise DecodeError(render_path(path), "this key is repeated in its object")
            keys.add(name)
        else:
            last = place
    raise DecodeError("$", "a key is repeated in one of its objects")
