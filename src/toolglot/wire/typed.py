"""Reads JSON documents as types without losing anything.

A dialect describes its wire format once, as structs (`wire/structs.py`). `TypedReader(kind, history).read(data)` is one
typed decode. If a document has an unknown member, a null or a value of another type, it is decoded member by member
with the same types (`wire/member_decode.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, ValidationError, inspect

from toolglot.errors import DecodeError
from toolglot.wire import incremental_json, json
from toolglot.wire.member_decode import MissingMemberError, ReaderFactory
from toolglot.wire.structs import UNTAGGED, Wire

T = TypeVar("T")
W = TypeVar("W", bound=Wire)

_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_elements = msgspec.json.Decoder(list[Raw]).decode
_UNWRITABLE = (UnicodeEncodeError, RecursionError)
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class UnsoundError(Exception):
    """The document may be unsound: a `Raw` part may hold invalid text, an invalid number or a repeated key.
    `json.decode` of the document says which."""


def sound_text(raw: Raw) -> str:
    """Return the text of a `Raw` part. The decoder has only found its end, so this checks the content."""
    data = bytes(raw)
    try:
        written = _encode(json.decode(data) if incremental_json.is_large(data) else _decode_any(data))
    except (*_REFUSED, DecodeError):
        raise UnsoundError from None
    if len(written) != len(data) and written.count(b":") != incremental_json.count_colons(data):
        raise UnsoundError
    return data.decode()


class TypedReader(Generic[W]):
    """Reads documents of one type. `history` is the member with the conversation, an array that may be long."""

    def __init__(self, kind: type[W], history: str) -> None:
        splitter = ReaderFactory()
        self._decode = msgspec.json.Decoder(kind).decode
        self._read_members = splitter.struct_reader(kind)
        self._history = self._read_members.fields[history]
        self._find_untagged = _tag_finder(self._history.item_types)
        self._decode_history = msgspec.json.Decoder(_array_type(kind, self._history.attribute)).decode

    def read(self, data: bytes, limit: int = json.MAX_DOCUMENT_BYTES, factor: int = 1) -> W:
        """Read a document. Raises `DecodeError` as `json.decode` does, and for values of the wrong type."""
        if len(data) > limit or incremental_json.is_large(data):
            return self._read_by_members(data, limit, factor)
        try:
            value = self._decode(data)
            written = _encode(value)
        except ValidationError:
            tagged = self._read_tagged(data)
            return self._read_by_members(data, limit, factor) if tagged is None else tagged
        except _REFUSED as error:
            json.decode(data, limit, factor)  # raises with the path
            raise json.explain(data, error) from None
        # A repeated key is read once, so the encoded value has one colon less.
        if len(written) != len(data) and written.count(b":") != incremental_json.count_colons(data):
            json.decode(data, limit, factor)  # raises with the path
        return value

    def read_history(self, data: bytes) -> list[Any] | None:
        """Read the history array alone. Returns None if only the whole document can be read."""
        if incremental_json.is_large(data):
            return None
        try:
            value: list[Any] = self._decode_history(data)
            written = _encode(value)
        except ValidationError:
            return self._read_tagged_history(data) or self._read_history_by_members(data)
        except _REFUSED:
            return None
        return (
            value if len(written) == len(data) or written.count(b":") == incremental_json.count_colons(data) else None
        )

    def _read_tagged_history(self, data: bytes) -> list[Any] | None:
        if self._find_untagged is None:
            return None
        try:
            starts = self._find_untagged(Raw(data))
            value: list[Any] = self._decode_history(_insert_tags(Raw(data), starts))
            written = _encode(value)
        except _REFUSED:
            return None
        if written.count(b":") - len(starts) != incremental_json.count_colons(data):
            return None
        for place in starts:
            value[place].rest = UNTAGGED
        return value

    def _read_history_by_members(self, data: bytes) -> list[Any] | None:
        """Read a history with members that the types do not know. Each element is first tried as a whole."""
        read_item, where = self._history.read_item, f"$.{self._history.name}"
        try:
            json.decode(data)  # rejects unsound JSON
            return [read_item(item, f"{where}[{index}]") for index, item in enumerate(_decode_elements(data))]
        except (DecodeError, MissingMemberError, *_REFUSED):
            return None  # reading the whole document reports the error

    def _read_tagged(self, data: bytes) -> W | None:
        """Read a document whose only oddity is missing tags in its history. The tags are inserted before decoding."""
        if self._find_untagged is None:
            return None
        try:
            members = _decode_members(data)
            history = members[self._history.name]
            starts = self._find_untagged(history)
            if not starts:
                return None
            members[self._history.name] = _insert_tags(history, starts)
            tagged = _encode(members)
            value = self._decode(tagged)
            written = _encode(value)
        except (KeyError, *_REFUSED):
            return None
        if written.count(b":") - len(starts) != incremental_json.count_colons(data):
            return None
        read = getattr(value, self._history.attribute)
        for place in starts:
            read[place].rest = UNTAGGED
        return value

    def read_frame(self, data: bytes) -> W:
        """Read one frame of a stream, as `json.decode_frame` does: the last of repeated keys wins."""
        if not incremental_json.is_large(data):
            try:
                return self._decode(data)
            except ValidationError:
                pass
            except _REFUSED as error:
                raise json.explain(data, error) from None
        json.decode_frame(data)
        return self._decode_by_members(data)

    def _read_by_members(self, data: bytes, limit: int, factor: int) -> W:
        json.decode(data, limit, factor)  # rejects unsound JSON
        return self._decode_by_members(data)

    def _decode_by_members(self, data: bytes) -> W:
        try:
            value: W = self._read_large(data) if incremental_json.is_large(data) else self._read_members(data, "$")
        except MissingMemberError as missing:
            raise DecodeError(missing.where, missing.what) from None
        return value

    def _read_large(self, data: bytes) -> W:
        """Read in many short calls. One call on tens of megabytes would hold the interpreter."""
        items: list[Any] = []
        where, read_item = f"$.{self._history.name}", self._history.read_item

        def read_some(raw: bytes) -> list[Any]:
            first = len(items)
            return [read_item(item, f"{where}[{first + index}]") for index, item in enumerate(_decode_elements(raw))]

        def read_one(raw: memoryview) -> Any:
            return read_item(Raw(raw), f"{where}[{len(items)}]")

        try:
            others = incremental_json.IncrementalReader(data).read_members(
                self._history.name, items, read_some, read_one
            )
        except incremental_json.IrregularJsonError:
            return self._read_members(data, "$")  # type: ignore[no-any-return]
        return self._read_members.from_members(others, "$", {self._history.attribute: items})  # type: ignore[no-any-return]


def _insert_tags(history: Raw, starts: dict[int, bytes]) -> Raw:
    """Insert the missing tags into the objects of an array."""
    items = _decode_elements(history)
    for place, start in starts.items():
        items[place] = Raw(start + bytes(items[place])[1:])
    return Raw(_encode(items))


def _array_type(kind: type[Wire], attribute: str) -> Any:
    """Return the array type among the types of a member."""
    types = get_type_hints(kind, include_extras=True)[attribute]
    return next((one for one in (types, *get_args(types)) if get_origin(one) is list), list[Any])


def _tag_finder(kinds: list[inspect.Type]) -> Callable[[Raw], dict[int, bytes]] | None:
    """Make a function that finds the objects without a tag in an array. It maps their positions to the bytes that
    replace the opening brace. Returns None if no type can lack its tag."""
    starts: dict[str, bytes] = {}
    for kind in kinds:
        if isinstance(kind, inspect.StructType) and issubclass(kind.cls, Wire) and kind.cls.implied_by:
            starts[kind.cls.implied_by] = b"{" + _encode({kind.tag_field: kind.tag})[1:-1] + b","
            tag_field = str(kind.tag_field)
    if not starts:
        return None
    members = [(tag_field, Any, UNSET), *((name, Any, None) for name in starts)]
    decode = msgspec.json.Decoder(list[msgspec.defstruct("_Tags", members, gc=False)]).decode  # type: ignore[misc]
    tag_of = attrgetter(tag_field)

    def find_start(item: Any) -> bytes:
        found = [start for name, start in starts.items() if getattr(item, name) is not None]
        return found[0] if len(found) == 1 else b"{"

    return lambda raw: {place: find_start(item) for place, item in enumerate(decode(raw)) if tag_of(item) is UNSET}


def part_reader(kind: Any) -> Callable[[bytes | Raw, str], Any]:
    """Make a function that reads part of a sound document as this type. It takes the bytes and their path."""
    whole = msgspec.json.Decoder(kind).decode
    parts = ReaderFactory().reader_for(inspect.type_info(kind))

    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            return whole(raw)
        except ValidationError:
            pass
        try:
            return parts(raw, where)
        except MissingMemberError as missing:
            raise DecodeError(missing.where, missing.what) from None

    return read


class ValueReader(Generic[T]):
    """Reads untyped JSON as a type, for decoders that learn the type of a value late."""

    def __init__(self, kind: type[T] | UnionType) -> None:
        # `convert` caches the layout of structs, but inspects other types on each call.
        self._holder: Any = msgspec.defstruct("Holder", [("value", kind)], gc=False)
        self._read_members = ReaderFactory().reader_for(inspect.type_info(kind))

    def read_value(self, value: Any, where: str) -> T:
        """Read the value at path `where`. `Raw` members have the spelling of this project's encoder."""
        try:
            return msgspec.convert({"value": value}, self._holder).value  # type: ignore[no-any-return]
        except ValidationError:
            pass
        try:
            return self._read_members(_encode_writable(value, where), where)  # type: ignore[no-any-return]
        except MissingMemberError as missing:
            raise DecodeError(missing.where, missing.what) from None


def _encode_writable(value: Any, where: str) -> bytes:
    """Encode a value. Members that JSON cannot hold (a lone surrogate, nesting that is too deep) are left out, because
    no message could show them either.

    Raises:
        DecodeError: nothing can be encoded.
    """
    try:
        return _encode(value)
    except _UNWRITABLE:
        members = value.items() if isinstance(value, dict) else ()
        left = {name: member for name, member in members if _is_writable({name: member})}
    if not left:
        raise DecodeError(where, "it holds a value that JSON cannot express")
    return _encode(left)


def _is_writable(value: Any) -> bool:
    try:
        _encode(value)
    except _UNWRITABLE:
        return False
    return True
