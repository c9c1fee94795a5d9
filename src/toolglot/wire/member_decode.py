"""Decodes documents member by member if their types reject them as a whole.

Each part is first tried as a whole, so only the path to the odd member is decoded in parts. This works on the bytes:
`msgspec.convert` of an untyped document would lose the spelling of `Raw` members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, ValidationError, inspect

from toolglot.errors import DecodeError, expected
from toolglot.wire.structs import NO_MEMBERS, OTHER_TAG, UNFILLED, Rest, Unknown, Verbatim, Wire

_Read: TypeAlias = Callable[[bytes | Raw, str], Any]

_decode_any = msgspec.json.Decoder().decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_elements = msgspec.json.Decoder(list[Raw]).decode


class MissingMemberError(Exception):
    """An object lacks a required member."""

    def __init__(self, owner: str, name: str, noun: str) -> None:
        self.owner = owner
        self.where = f"{owner}.{name}"
        self.what = f"this {noun} is required"


_TYPE_NAMES: Mapping[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "a boolean",
    inspect.ListType: "an array",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.NoneType: "null",
}


def _type_names(types: list[inspect.Type]) -> str:
    kinds = [type(_without_metadata(one)) for one in types]
    implied: list[type[inspect.Type]] = [inspect.IntType] if inspect.FloatType in kinds else []
    if len(kinds) > 1:  # an optional null is not worth mentioning
        implied.append(inspect.NoneType)
    named = (_type_name(_without_metadata(one)) for one in types if type(_without_metadata(one)) not in implied)
    return " or ".join(dict.fromkeys(named))


def _type_name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f"`{value}`" for value in kind.values)
    return _TYPE_NAMES.get(type(kind), "a known value")


def _without_metadata(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types of a union, or the single type."""
    bare = _without_metadata(kind)
    return (
        [one for outer in bare.types for one in _alternatives(outer)] if isinstance(bare, inspect.UnionType) else [bare]
    )


class ReaderFactory:
    """Makes a reader function for each type."""

    def __init__(self) -> None:
        self._structs: dict[type, StructReader] = {}

    def reader_for(self, kind: inspect.Type) -> _Read:
        """Make the function that reads a value of this type if it cannot be decoded as a whole."""
        match kind:
            case inspect.Metadata(type=inner):
                return self.reader_for(inner)
            case inspect.StructType(cls=cls):
                return self.struct_reader(cls)
            case inspect.ListType(item_type=item):
                return _list_reader(self.reader_for(item))
            case inspect.UnionType():
                return self._union_reader(
                    [one for one in _alternatives(kind) if not isinstance(one, inspect.CustomType)]
                )
            case inspect.AnyType():
                return lambda raw, where: _decode_any(raw)
            case inspect.RawType():
                return lambda raw, where: raw if isinstance(raw, Raw) else Raw(raw)
        return _leaf_reader([kind], _type_names([kind]))

    def _union_reader(self, types: list[inspect.Type]) -> _Read:
        structs = [one for one in types if isinstance(one, inspect.StructType)]
        arrays = [one for one in types if isinstance(one, inspect.ListType)]
        leaves = [one for one in types if not isinstance(one, (inspect.StructType, inspect.ListType))]
        if len(types) == 1:
            return self.reader_for(types[0])
        read_object = self._object_union_reader(structs) if structs else None
        read_array = self.reader_for(arrays[0]) if arrays else None
        read_leaf = _leaf_reader(leaves, _type_names(types)) if leaves else None

        def read(raw: bytes | Raw, where: str) -> Any:
            start = bytes(memoryview(raw)[:1])
            reader = read_object if start == b"{" else read_array if start == b"[" else read_leaf
            if reader is None:
                raise expected(where, _type_names(types), _decode_any(raw))
            return reader(raw, where)

        return read

    def _object_union_reader(self, structs: list[inspect.StructType]) -> _Read:
        """Make the reader of a union of objects, distinguished by their tags."""
        known: dict[Any, StructReader] = {
            one.tag: self.struct_reader(one.cls) for one in structs if one.cls is not Unknown
        }
        if None in known:
            return known[None]
        whole = msgspec.json.Decoder(reduce(or_, [one.cls for one in structs])).decode
        if OTHER_TAG in known:
            return _open_union_reader(whole, known, str(structs[0].tag_field))
        implied = [known[one.tag] for one in structs if issubclass(one.cls, Wire) and one.cls.implied_by]
        keeps_unknown = any(one.cls is Unknown for one in structs)
        tag_field = str(structs[0].tag_field)

        def read(raw: bytes | Raw, where: str) -> Any:
            try:
                return whole(raw)
            except ValidationError:
                members = _decode_members(raw)
            tag = _decode_any(members[tag_field]) if tag_field in members else UNSET
            reader = known.get(tag) if isinstance(tag, str) else None
            try:
                if reader is not None:
                    return reader.from_members(members, where, {})
                if (reader := _find_implied_type(implied, members, tag)) is not None:
                    return reader.from_members(members, where, {}, is_implied=True)
            except MissingMemberError as missing:
                if not keeps_unknown or missing.owner != where:
                    raise
                return Unknown(verbatim=Verbatim(_decode_any(raw), where, DecodeError(missing.where, missing.what)))
            if not keeps_unknown:
                raise DecodeError(f"{where}.{tag_field}", "no known type")
            return Unknown(verbatim=Verbatim(_decode_any(raw), where))

        return read

    def struct_reader(self, cls: type[Any]) -> StructReader:
        made = self._structs.get(cls)
        if made is None:
            made = self._structs[cls] = StructReader(cls)  # registered before its fields: types may be recursive
            made.add_fields(self)
        return made


def _find_implied_type(readers: list[StructReader], members: Mapping[str, Raw], tag: Any) -> StructReader | None:
    """Return the type of an object without a tag, if exactly one type has its implying member there."""
    found = [one for one in readers if one.implied_by in members and not is_null(members[one.implied_by])]
    if len(found) != 1:
        return None
    return found[0] if tag is UNSET or (tag in (None, "") and found[0].blank_tag_is_missing) else None


def _open_union_reader(whole: Callable[[bytes | Raw], Any], known: Mapping[Any, StructReader], tag_field: str) -> _Read:
    """Make the reader of a union in which one type reads the objects with any other tag."""

    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            return whole(raw)
        except ValidationError:
            members = _decode_members(raw)
        tag = _decode_any(members[tag_field]) if tag_field in members else None
        if tag is None:
            raise MissingMemberError(where, tag_field, "string")
        if not isinstance(tag, str):
            raise expected(f"{where}.{tag_field}", "a string", tag)
        return known.get(tag, known[OTHER_TAG]).from_members(members, where, {})

    return read


def is_null(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b"n"


class StructReader:
    """Reads an object as a whole, or member by member."""

    def __init__(self, cls: type[Wire]) -> None:
        info = inspect.type_info(cls)
        assert isinstance(info, inspect.StructType)
        self._cls = cls
        self._info = info
        self.implied_by = cls.implied_by
        self.blank_tag_is_missing = cls.blank_tag_is_missing
        self._whole: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(cls).decode
        self.fields: dict[str, MemberReader] = {}
        self._required: list[MemberReader] = []

    def add_fields(self, splitter: ReaderFactory) -> None:
        annotations = {one.encode_name: one.type for one in msgspec.structs.fields(self._cls)}
        for found in self._info.fields:
            if found.encode_name != UNFILLED:
                self.fields[found.encode_name] = MemberReader(found, annotations[found.encode_name], splitter)
        self._required = [one for one in self.fields.values() if one.is_required]

    def __call__(self, raw: bytes | Raw, where: str) -> Any:
        try:
            return self._whole(raw)
        except ValidationError:
            pass
        try:
            members = _decode_members(raw)
        except ValidationError:
            raise expected(where, "an object", _decode_any(raw)) from None
        return self.from_members(members, where, {})

    def from_members(
        self, members: Mapping[str, Raw], where: str, values: dict[str, Any], *, is_implied: bool = False
    ) -> Any:
        """Build the object from these members and from `values`, which are decoded already."""
        self._check_required(members, where, values)
        rest = Rest()
        seen: dict[str, None] = {}
        for spelling, member in members.items():
            name = self._cls.resolve_name(spelling, where)
            if name in seen:
                raise DecodeError(f"{where}.{name}", "this member is present in both spellings")
            seen[name] = None
            known = self.fields.get(name)
            if known is not None:
                known.read_into(values, rest, member, f"{where}.{name}")
            elif (value := _decode_any(member)) != self._info.tag or name != self._info.tag_field:
                rest[name] = self._cls.resolve_rest(name, value, f"{where}.{name}")
        self._check_required(NO_MEMBERS, where, values)
        if not rest and not is_implied:
            return self._cls(**values)
        rest.order, rest.is_implied = tuple(seen), is_implied
        return self._cls(**values, rest=rest)

    def _check_required(self, members: Mapping[str, Raw], where: str, values: Mapping[str, Any]) -> None:
        """Raise for a missing member. This runs before wrong values are reported, because the object may have an
        unknown type."""
        if not self._required:
            return
        present = {self._cls.resolve_name(name, where) for name, raw in members.items() if not is_null(raw)}
        for one in self._required:
            if one.attribute not in values and one.name not in present:
                raise MissingMemberError(where, one.name, one.noun)


_RestPolicy = Literal["", "other type", "unknown", "inexact", "or unknown", "empty"]


class MemberReader:
    def __init__(self, found: inspect.Field, annotation: Any, splitter: ReaderFactory) -> None:
        types = list(found.type.types) if isinstance(found.type, inspect.UnionType) else [found.type]
        bare = _alternatives(found.type)
        extras = [one.extra for one in types if isinstance(one, inspect.Metadata) and one.extra]
        self.name = found.encode_name
        self.attribute = found.name
        self.is_required = found.required
        self.noun = _TYPE_NAMES.get(type(bare[0]), "a member").split(" ", 1)[1]
        self._rest_policy: _RestPolicy = extras[0]["keeps"] if extras else ""
        self._takes_null = any(isinstance(one, (inspect.NoneType, inspect.AnyType, inspect.RawType)) for one in bare)
        self._whole = msgspec.json.Decoder(annotation).decode
        self._parts = splitter.reader_for(found.type)
        arrays = [one for one in bare if isinstance(one, inspect.ListType)]
        self.item_types = _alternatives(arrays[0].item_type) if arrays else []
        self.read_item = splitter.reader_for(arrays[0].item_type) if arrays else self._parts
        """Reads an element, if the member is an array."""

    def _read(self, raw: Raw, where: str) -> Any:
        try:
            return self._whole(raw)
        except ValidationError:
            return self._parts(raw, where)

    def read_into(self, values: dict[str, Any], rest: Rest, raw: Raw, where: str) -> None:
        """Read the member into the values, or into the rest."""
        if not self._takes_null and is_null(raw):
            rest[self.name] = None
            return
        try:
            value = self._read(raw, where)
        except (DecodeError, MissingMemberError) as error:
            if self._rest_policy == "or unknown" and error.where == where:
                raise MissingMemberError(where.removesuffix(f".{self.name}"), self.name, self.noun) from None
            if not self._belongs_in_rest(raw, error, where):
                raise
            rest[self.name] = _decode_any(raw)
            return
        if self._rest_policy == "inexact" and isinstance(value, Wire) and value.rest is not UNSET:
            rest[self.name] = _decode_any(raw)
        else:
            values[self.attribute] = value

    def _belongs_in_rest(self, raw: Raw, error: DecodeError | MissingMemberError, where: str) -> bool:
        """Return whether a value of another type stays in the rest."""
        match self._rest_policy:
            case "other type":
                lacks_member = isinstance(error, MissingMemberError) and error.owner == where
                return lacks_member or error.where in (where, f"{where}.type")
            case "unknown":
                return error.where in (where, f"{where}.type")
            case "empty":
                return not _decode_any(raw)
        return self._rest_policy == "inexact"


def _list_reader(read_item: _Read) -> _Read:
    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            items = _decode_elements(raw)
        except ValidationError:
            raise expected(where, "an array", _decode_any(raw)) from None
        return [read_item(item, f"{where}[{index}]") for index, item in enumerate(items)]

    return read


_PYTHON_TYPES: Mapping[type[inspect.Type], Any] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.NoneType: None,
}


def _python_type(kind: inspect.Type) -> Any:
    match kind:
        case inspect.LiteralType(values=values):
            return Literal[values]
        case inspect.DictType(key_type=key, value_type=value):
            return dict[_python_type(key), _python_type(value)]  # type: ignore[misc]
    return _PYTHON_TYPES.get(type(kind), Any)


def _leaf_reader(kinds: list[inspect.Type], words: str) -> _Read:
    decode = msgspec.json.Decoder(_union_of(kinds)).decode
    takes_whole_floats = any(isinstance(kind, inspect.IntType) for kind in kinds)

    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            return decode(raw)
        except ValidationError:
            value = _decode_any(raw)
            if takes_whole_floats and isinstance(value, float) and value.is_integer():
                return int(value)
            raise expected(where, words, value) from None

    return read


def _union_of(kinds: list[inspect.Type]) -> Any:
    union = _python_type(kinds[0])
    for kind in kinds[1:]:
        union = union | _python_type(kind)
    return union
