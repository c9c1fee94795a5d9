"""JSON documents read as types, with nothing lost.

A dialect writes its wire down once, as `Wire` structs: known members with their types, `Raw` where the spelling counts.
`TypedReader(Body).read(data)` is one typed decode. Where a document has a member that the types do not know, a null, or
a value of another type, the same types are walked over its bytes. Each part is first tried whole, so that only the path
to the odd member is taken apart. What no type knows is in `rest` of the object that it stood in, and `Unknown` stands
for an element of a union that none of its types fits.

Do not split an untyped document with `msgspec.convert` instead: the spelling of `Raw` members is gone by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, ValidationError, field, inspect

from toolglot.errors import DecodeError
from toolglot.wire import json, large
from toolglot.wire.reader import expected

_UNFILLED = "\uffff"
"""The wire name of members that no JSON can fill: their types have no JSON form, so that a peer's is refused."""


class Rest(dict[str, Any]):
    """Members that the type of their object does not know, and nulls where it has none."""


class Verbatim:
    """A JSON value as it came, and its path."""

    __slots__ = ("value", "where")

    def __init__(self, value: Any, where: str) -> None:
        self.value = value
        self.where = where


class Wire(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An object of a vendor's wire. Optional members default to `UNSET`: any other default would not be written, and
    the check for repeated keys relies on what is written."""

    implied_by: ClassVar[str] = ""
    """In a union: the member that gives the type away where the tag is missing."""

    rest: Rest | UnsetType = field(default=UNSET, name=_UNFILLED)


class Unknown(Wire, tag=_UNFILLED, tag_field="type"):
    """An element of a tagged union whose tag or shape no member of the union has."""

    verbatim: Verbatim


UNLESS_OTHER_TYPE = Meta(extra={"keeps": "other type"})
"""On an object: it stays in `rest` where its `type` is not a known one."""
UNLESS_INEXACT = Meta(extra={"keeps": "inexact"})
"""On an object: it stays in `rest` where it is not exactly of this form."""

W = TypeVar("W", bound=Wire)
_Read: TypeAlias = Callable[[bytes | Raw, str], Any]

_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class UnsoundError(Exception):
    """A `Raw` part may hold what is no text, no number, or a key twice. `json.decode` of the document tells."""


def sound_text(raw: Raw) -> str:
    """The text of a `Raw` part. Its decoder has only looked for its end, so it is read here."""
    data = bytes(raw)
    try:
        written = _encode(_any(data))
    except _REFUSED:
        raise UnsoundError from None
    if len(written) != len(data) and written.count(b":") != large.colons(data):
        raise UnsoundError
    return data.decode()


class TypedReader(Generic[W]):
    """Reads documents of one type. `history` is the member that holds the conversation, an array that may be long."""

    def __init__(self, kind: type[W], history: str) -> None:
        splitter = _Splitter()
        self._decode = msgspec.json.Decoder(kind).decode
        self._split = splitter.struct(kind)
        self._history = self._split.fields[history]

    def read(self, data: bytes, limit: int = json.MAX_DOCUMENT_BYTES) -> W:
        """The document. Raises `DecodeError` as `json.decode` does, and for values of the wrong type."""
        if len(data) > limit or large.is_large(data):
            return self._read_apart(data, limit)
        try:
            value = self._decode(data)
            written = _encode(value)
        except ValidationError:
            return self._read_apart(data, limit)
        except _REFUSED as error:
            raise json.explain(data, error) from None
        # A key that stands twice is read once: what is written lacks it, and its colon.
        if len(written) != len(data) and written.count(b":") != large.colons(data):
            json.decode(data, limit)  # tells where
        return value

    def _read_apart(self, data: bytes, limit: int) -> W:
        json.decode(data, limit)  # refuses what is no JSON to rely on
        try:
            value: W = self._read_large(data) if large.is_large(data) else self._split(data, "$")
        except _MissingError as missing:
            raise DecodeError(missing.where, missing.what) from None
        return value

    def _read_large(self, data: bytes) -> W:
        """In many short calls: one on tens of megabytes would hold the interpreter."""
        items: list[Any] = []
        where, read_item = f"$.{self._history.name}", self._history.read_item

        def read_some(raw: bytes) -> list[Any]:
            first = len(items)
            return [read_item(item, f"{where}[{first + index}]") for index, item in enumerate(_elements(raw))]

        def read_one(raw: memoryview) -> Any:
            return read_item(Raw(raw), f"{where}[{len(items)}]")

        try:
            others = large.Reading(data).members(self._history.name, items, read_some, read_one)
        except large.Irregular:
            return self._split(data, "$")  # type: ignore[no-any-return]
        return self._split.from_members(others, "$", {self._history.attribute: items})  # type: ignore[no-any-return]


class _MissingError(Exception):
    """An object lacks a member that its type must have."""

    def __init__(self, where: str, noun: str) -> None:
        self.where = where
        self.what = f"this {noun} is required"


_WORDS: Mapping[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "a boolean",
    inspect.ListType: "an array",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.NoneType: "null",
}


def _words(types: list[inspect.Type]) -> str:
    return " or ".join(dict.fromkeys(_WORDS.get(type(one), "a known value") for one in types))


class _Splitter:
    """Makes the functions that take parts of a document apart, one for each type."""

    def __init__(self) -> None:
        self._structs: dict[type, _StructReader] = {}

    def parts(self, kind: inspect.Type) -> _Read:
        """Reads a value of this type that cannot be decoded whole."""
        match kind:
            case inspect.Metadata(type=inner):
                return self.parts(inner)
            case inspect.StructType(cls=cls):
                return self.struct(cls)
            case inspect.ListType(item_type=item):
                return _of_list(self.parts(item))
            case inspect.UnionType(types=types):
                return self._of_union([one for one in types if not isinstance(one, inspect.CustomType)])
            case inspect.AnyType():
                return lambda raw, where: _any(raw)
            case inspect.RawType():
                return lambda raw, where: raw if isinstance(raw, Raw) else Raw(raw)
        return _of_leaves([kind], _words([kind]))

    def _of_union(self, types: list[inspect.Type]) -> _Read:
        structs = [one for one in types if isinstance(one, inspect.StructType)]
        arrays = [one for one in types if isinstance(one, inspect.ListType)]
        leaves = [one for one in types if not isinstance(one, inspect.StructType | inspect.ListType)]
        if len(types) == 1:
            return self.parts(types[0])
        read_object = self._of_objects(structs) if structs else None
        read_array = self.parts(arrays[0]) if arrays else None
        read_leaf = _of_leaves(leaves, _words(types)) if leaves else None

        def read(raw: bytes | Raw, where: str) -> Any:
            start = bytes(memoryview(raw)[:1])
            reader = read_object if start == b"{" else read_array if start == b"[" else read_leaf
            if reader is None:
                raise expected(where, _words(types), _any(raw))
            return reader(raw, where)

        return read

    def _of_objects(self, structs: list[inspect.StructType]) -> _Read:
        """A union of objects, told apart by their tags."""
        known: dict[Any, _StructReader] = {one.tag: self.struct(one.cls) for one in structs if one.cls is not Unknown}
        implied = {
            one.cls.implied_by: known[one.tag] for one in structs if issubclass(one.cls, Wire) and one.cls.implied_by
        }
        keeps_unknown = any(one.cls is Unknown for one in structs)
        if None in known:
            return known[None]

        def read(raw: bytes | Raw, where: str) -> Any:
            members = _members(raw)
            tag = _any(members["type"]) if "type" in members else None
            reader = known.get(tag) if isinstance(tag, str) else None
            if tag is None:
                reader = next((one for member, one in implied.items() if member in members), None)
            try:
                if reader is not None:
                    return reader(raw, where)
            except _MissingError:
                if not keeps_unknown:
                    raise
            if not keeps_unknown:
                raise DecodeError(f"{where}.type", "no known type")
            return Unknown(verbatim=Verbatim(_any(raw), where))

        return read

    def struct(self, cls: type) -> _StructReader:
        made = self._structs.get(cls)
        if made is None:
            made = self._structs[cls] = _StructReader(cls)  # before its fields: types may contain themselves
            made.add_fields(self)
        return made


class _StructReader:
    """Reads an object: whole, or member by member."""

    def __init__(self, cls: type) -> None:
        info = inspect.type_info(cls)
        assert isinstance(info, inspect.StructType)
        self._cls = cls
        self._info = info
        self._whole: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(cls).decode
        self.fields: dict[str, _Field] = {}
        self._required: list[_Field] = []

    def add_fields(self, splitter: _Splitter) -> None:
        annotations = {one.encode_name: one.type for one in msgspec.structs.fields(self._cls)}
        for found in self._info.fields:
            if found.encode_name != _UNFILLED:
                self.fields[found.encode_name] = _Field(found, annotations[found.encode_name], splitter)
        self._required = [one for one in self.fields.values() if one.is_required]

    def __call__(self, raw: bytes | Raw, where: str) -> Any:
        try:
            return self._whole(raw)
        except ValidationError:
            pass
        try:
            members = _members(raw)
        except ValidationError:
            raise expected(where, "an object", _any(raw)) from None
        return self.from_members(members, where, {})

    def from_members(self, members: Mapping[str, Raw], where: str, values: dict[str, Any]) -> Any:
        """The object of these members, and of these values that are read already."""
        rest = Rest()
        for name, member in members.items():
            known = self.fields.get(name)
            if known is not None:
                known.read_into(values, rest, member, f"{where}.{name}")
            elif name != self._info.tag_field:
                rest[name] = _any(member)
        for one in self._required:
            if one.attribute not in values:
                raise _MissingError(f"{where}.{one.name}", one.noun)
        return self._cls(**values, rest=rest) if rest else self._cls(**values)


class _Field:
    """A member of a struct."""

    def __init__(self, found: inspect.Field, annotation: Any, splitter: _Splitter) -> None:
        types = list(found.type.types) if isinstance(found.type, inspect.UnionType) else [found.type]
        bare = [one.type if isinstance(one, inspect.Metadata) else one for one in types]
        extras = [one.extra for one in types if isinstance(one, inspect.Metadata) and one.extra]
        self.name = found.encode_name
        self.attribute = found.name
        self.is_required = found.required
        self.noun = _WORDS.get(type(bare[0]), "a member").split(" ", 1)[1]
        self._keeps: Literal["", "other type", "inexact"] = extras[0]["keeps"] if extras else ""
        self._takes_null = any(isinstance(one, inspect.NoneType | inspect.AnyType | inspect.RawType) for one in bare)
        self._whole = msgspec.json.Decoder(annotation).decode
        self._parts = splitter.parts(found.type)
        arrays = [one for one in bare if isinstance(one, inspect.ListType)]
        self.read_item = splitter.parts(arrays[0].item_type) if arrays else self._parts
        """Reads an element, where the member is an array."""

    def _read(self, raw: Raw, where: str) -> Any:
        try:
            return self._whole(raw)
        except ValidationError:
            return self._parts(raw, where)

    def read_into(self, values: dict[str, Any], rest: Rest, raw: Raw, where: str) -> None:
        """Put the member where it belongs: among the values, or into the rest."""
        if not self._takes_null and bytes(memoryview(raw)[:1]) == b"n":
            rest[self.name] = None
            return
        try:
            value = self._read(raw, where)
        except (DecodeError, _MissingError) as error:
            is_other = self._keeps == "other type" and error.where == f"{where}.type"
            if not is_other and self._keeps != "inexact":
                raise
            rest[self.name] = _any(raw)
            return
        if self._keeps == "inexact" and isinstance(value, Wire) and value.rest is not UNSET:
            rest[self.name] = _any(raw)
        else:
            values[self.attribute] = value


def _of_list(read_item: _Read) -> _Read:
    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            items = _elements(raw)
        except ValidationError:
            raise expected(where, "an array", _any(raw)) from None
        return [read_item(item, f"{where}[{index}]") for index, item in enumerate(items)]

    return read


_PYTHON: Mapping[type[inspect.Type], Any] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.NoneType: None,
}


def _python(kind: inspect.Type) -> Any:
    match kind:
        case inspect.LiteralType(values=values):
            return Literal[values]
        case inspect.DictType(key_type=key, value_type=value):
            return dict[_python(key), _python(value)]  # type: ignore[misc]
    return _PYTHON.get(type(kind), Any)


def _of_leaves(kinds: list[inspect.Type], words: str) -> _Read:
    decode = msgspec.json.Decoder(_union_of(kinds)).decode
    takes_whole_floats = any(isinstance(kind, inspect.IntType) for kind in kinds)

    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            return decode(raw)
        except ValidationError:
            value = _any(raw)
            if takes_whole_floats and isinstance(value, float) and value.is_integer():
                return int(value)
            raise expected(where, words, value) from None

    return read


def _union_of(kinds: list[inspect.Type]) -> Any:
    union = _python(kinds[0])
    for kind in kinds[1:]:
        union = union | _python(kind)
    return union
