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
from functools import reduce
from operator import attrgetter, or_
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, ValidationError, field, inspect
from msgspec.structs import astuple

from toolglot.errors import DecodeError
from toolglot.wire import json, large
from toolglot.wire.reader import expected

_UNFILLED = "\uffff"
"""The wire name of members that no JSON can fill: their types have no JSON form, so that a peer's is refused."""


NO_MEMBERS: Mapping[str, Any] = {}


class Rest(dict[str, Any]):
    """Members that the type of their object does not know, and nulls where it has none.

    `order` has the names of all members as they came. `is_implied`: the object lacks its tag, another member tells it.
    """

    __slots__ = ("is_implied", "order")

    def __init__(
        self, members: Mapping[str, Any] = NO_MEMBERS, order: tuple[str, ...] = (), *, is_implied: bool = False
    ) -> None:
        super().__init__(members)
        self.order = order
        self.is_implied = is_implied


UNTAGGED = Rest(is_implied=True)
"""The rest of an object that lacks its tag and has no other member that is not known."""


class Verbatim:
    """A JSON value as it came, and its path. `missing`: its type is known, but demands a member that it has not."""

    __slots__ = ("missing", "value", "where")

    def __init__(self, value: Any, where: str, missing: DecodeError | None = None) -> None:
        self.value = value
        self.where = where
        self.missing = missing


class Wire(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An object of a vendor's wire. Optional members default to `UNSET`: any other default would not be written, and
    the check for repeated keys relies on what is written."""

    implied_by: ClassVar[str] = ""
    """In a union: the member that gives the type away where the tag is missing and no other type's member is there."""
    blank_tag_is_missing: ClassVar[bool] = False
    """With `implied_by`: a tag that is null or empty counts as missing. It stays in `rest`."""

    rest: Rest | UnsetType = field(default=UNSET, name=_UNFILLED)

    @classmethod
    def resolve_name(cls, name: str, where: str) -> str:
        """The spelling that the types have for a member that came as `name`; `where` is the path of its object."""
        return name

    @classmethod
    def resolve_rest(cls, name: str, value: Any, where: str) -> Any:
        """The value of a member that goes to `rest`; `where` is its path."""
        return value


class Unknown(Wire, tag=_UNFILLED, tag_field="type"):
    """An element of a tagged union whose tag or shape no member of the union has."""

    verbatim: Verbatim


UNLESS_OTHER_TYPE = Meta(extra={"keeps": "other type"})
"""On an object: it stays in `rest` where its `type` is not a known one, or its form is not that of its type."""
UNLESS_UNKNOWN = Meta(extra={"keeps": "unknown"})
"""The same, but an object of a known `type` that lacks a member is refused."""
UNLESS_INEXACT = Meta(extra={"keeps": "inexact"})
"""On an object: it stays in `rest` where it is not exactly of this form."""

OR_UNKNOWN = Meta(extra={"keeps": "or unknown"})
"""On a member of an object in a union: if it is of another type, the object is `Unknown`."""
UNLESS_EMPTY = Meta(extra={"keeps": "empty"})
"""On a member: a value of another type that is empty or false stays in `rest`."""

OTHER_TAG = _UNFILLED
"""The tag of a type that reads objects of all tags that no other type of its union has. Their tag is in `rest`."""

W = TypeVar("W", bound=Wire)
_Read: TypeAlias = Callable[[bytes | Raw, str], Any]

_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class UnsoundError(Exception):
    """A `Raw` part may hold what is no text, no number, or a key twice. `json.decode` of the document tells."""


def as_json(value: Any) -> Any:
    """What was read, as untyped JSON."""
    if isinstance(value, Unknown):
        return value.verbatim.value
    if isinstance(value, Wire):
        return {**_tag(value), **members_without(value)}
    if isinstance(value, Raw):
        return _any(value)
    return [as_json(one) for one in value] if type(value) is list else value


def _tag(node: Wire) -> dict[str, Any]:
    config = node.__struct_config__
    if config.tag is None or (node.rest is not UNSET and (node.rest.is_implied or config.tag_field in node.rest)):
        return {}
    return {str(config.tag_field): config.tag}


def members_without(node: Wire, *taken: str) -> dict[str, Any]:
    """The members of an object as untyped JSON, without those that are taken. They have the order of the document where
    `rest` tells it, else that of the types."""
    pairs = zip(node.__struct_encode_fields__, astuple(node), strict=True)
    members: dict[str, Any] = {name: value for name, value in pairs if value is not UNSET}
    members.pop(_UNFILLED, None)
    for name in taken:
        members.pop(name, None)
    for name, value in members.items():
        if type(value) not in _LEAVES:
            members[name] = as_json(value)
    rest = node.rest
    if rest is UNSET:
        return members
    if not members:
        return dict(rest)
    members.update(rest)
    return {name: members[name] for name in rest.order if name in members} if rest.order else members


_LEAVES = frozenset({str, bool, int, float, dict, type(None)})


def count_members(node: Wire) -> int:
    """How many members an object has; those that its type does not know count as one."""
    values = astuple(node)
    return len(values) - values.count(UNSET)


def sound_text(raw: Raw) -> str:
    """The text of a `Raw` part. Its decoder has only looked for its end, so it is read here."""
    data = bytes(raw)
    try:
        written = _encode(json.decode(data) if large.is_large(data) else _any(data))
    except (*_REFUSED, DecodeError):
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
        self._find_untagged = _tag_finder(self._history.item_types)

    def read(self, data: bytes, limit: int = json.MAX_DOCUMENT_BYTES, factor: int = 1) -> W:
        """The document. Raises `DecodeError` as `json.decode` does, and for values of the wrong type."""
        if len(data) > limit or large.is_large(data):
            return self._read_apart(data, limit, factor)
        try:
            value = self._decode(data)
            written = _encode(value)
        except ValidationError:
            tagged = self._read_tagged(data)
            return self._read_apart(data, limit, factor) if tagged is None else tagged
        except _REFUSED as error:
            json.decode(data, limit, factor)  # tells where
            raise json.explain(data, error) from None
        # A key that stands twice is read once: what is written lacks it, and its colon.
        if len(written) != len(data) and written.count(b":") != large.colons(data):
            json.decode(data, limit, factor)  # tells where
        return value

    def _read_tagged(self, data: bytes) -> W | None:
        """The document, if nothing is odd about it but missing tags in its history: they are written into it."""
        if self._find_untagged is None:
            return None
        try:
            members = _members(data)
            history = members[self._history.name]
            starts, items = self._find_untagged(history), _elements(history)
            for place, start in starts.items():
                items[place] = Raw(start + bytes(items[place])[1:])
            members[self._history.name] = Raw(_encode(items))
            tagged = _encode(members)
            value = self._decode(tagged)
            written = _encode(value)
        except (KeyError, *_REFUSED):
            return None
        if written.count(b":") - len(starts) != large.colons(data):
            return None
        read = getattr(value, self._history.attribute)
        for place in starts:
            read[place].rest = UNTAGGED
        return value

    def read_frame(self, data: bytes) -> W:
        """The same for one frame of a stream, as `json.decode_frame`: of repeated keys the last one counts."""
        if not large.is_large(data):
            try:
                return self._decode(data)
            except ValidationError:
                pass
            except _REFUSED as error:
                raise json.explain(data, error) from None
        json.decode_frame(data)
        return self._split_document(data)

    def _read_apart(self, data: bytes, limit: int, factor: int) -> W:
        json.decode(data, limit, factor)  # refuses what is no JSON to rely on
        return self._split_document(data)

    def _split_document(self, data: bytes) -> W:
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


def _tag_finder(kinds: list[inspect.Type]) -> Callable[[Raw], dict[int, bytes]] | None:
    """Makes a function that finds the objects of an array that lack their tag: by place, what must stand there instead
    of the opening brace. None if no type can do without a tag."""
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
    """Makes a function that reads a part of a sound document as this type; it takes the bytes and their path."""
    whole = msgspec.json.Decoder(kind).decode
    parts = _Splitter().parts(inspect.type_info(kind))

    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            return whole(raw)
        except ValidationError:
            pass
        try:
            return parts(raw, where)
        except _MissingError as missing:
            raise DecodeError(missing.where, missing.what) from None

    return read


class ValueReader(Generic[W]):
    """Reads objects that are there as untyped JSON, where a decoder learns late what they are."""

    def __init__(self, kind: type[W]) -> None:
        self._split = _Splitter().struct(kind)

    def read_value(self, value: dict[str, Any], where: str) -> W:
        """The object; `where` is its path. The spelling of `Raw` members is that of our encoder."""
        try:
            read: W = self._split(_encode(value), where)
        except _MissingError as missing:
            raise DecodeError(missing.where, missing.what) from None
        return read


class _MissingError(Exception):
    """An object lacks a member that its type must have."""

    def __init__(self, owner: str, name: str, noun: str) -> None:
        self.owner = owner
        self.where = f"{owner}.{name}"
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
    kinds = [type(_bare(one)) for one in types]
    implied: list[type[inspect.Type]] = [inspect.IntType] if inspect.FloatType in kinds else []
    if len(kinds) > 1:  # a null is as good as nothing
        implied.append(inspect.NoneType)
    return " or ".join(dict.fromkeys(_WORDS.get(one, "a known value") for one in kinds if one not in implied))


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """The types of a union, or the one type."""
    bare = _bare(kind)
    return (
        [one for outer in bare.types for one in _alternatives(outer)] if isinstance(bare, inspect.UnionType) else [bare]
    )


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
            case inspect.UnionType():
                return self._of_union([one for one in _alternatives(kind) if not isinstance(one, inspect.CustomType)])
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
        if None in known:
            return known[None]
        whole = msgspec.json.Decoder(reduce(or_, [one.cls for one in structs])).decode
        if OTHER_TAG in known:
            return _of_any_tag(whole, known, str(structs[0].tag_field))
        implied = [known[one.tag] for one in structs if issubclass(one.cls, Wire) and one.cls.implied_by]
        keeps_unknown = any(one.cls is Unknown for one in structs)
        tag_field = str(structs[0].tag_field)

        def read(raw: bytes | Raw, where: str) -> Any:
            try:
                return whole(raw)
            except ValidationError:
                members = _members(raw)
            tag = _any(members[tag_field]) if tag_field in members else UNSET
            reader = known.get(tag) if isinstance(tag, str) else None
            try:
                if reader is not None:
                    return reader.from_members(members, where, {})
                if (reader := _implied(implied, members, tag)) is not None:
                    return reader.from_members(members, where, {}, is_implied=True)
            except _MissingError as missing:
                if not keeps_unknown or missing.owner != where:
                    raise
                return Unknown(verbatim=Verbatim(_any(raw), where, DecodeError(missing.where, missing.what)))
            if not keeps_unknown:
                raise DecodeError(f"{where}.{tag_field}", "no known type")
            return Unknown(verbatim=Verbatim(_any(raw), where))

        return read

    def struct(self, cls: type[Any]) -> _StructReader:
        made = self._structs.get(cls)
        if made is None:
            made = self._structs[cls] = _StructReader(cls)  # before its fields: types may contain themselves
            made.add_fields(self)
        return made


def _implied(readers: list[_StructReader], members: Mapping[str, Raw], tag: Any) -> _StructReader | None:
    """The type of an object without a tag, if exactly one has its member there."""
    found = [one for one in readers if one.implied_by in members and not is_null(members[one.implied_by])]
    if len(found) != 1:
        return None
    return found[0] if tag is UNSET or (tag in (None, "") and found[0].blank_tag_is_missing) else None


def _of_any_tag(whole: Callable[[bytes | Raw], Any], known: Mapping[Any, _StructReader], tag_field: str) -> _Read:
    """A union of objects in which one type reads those of other tags."""

    def read(raw: bytes | Raw, where: str) -> Any:
        try:
            return whole(raw)
        except ValidationError:
            members = _members(raw)
        tag = _any(members[tag_field]) if tag_field in members else None
        if tag is None:
            raise _MissingError(where, tag_field, "string")
        if not isinstance(tag, str):
            raise expected(f"{where}.{tag_field}", "a string", tag)
        return known.get(tag, known[OTHER_TAG]).from_members(members, where, {})

    return read


def is_null(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b"n"


class _StructReader:
    """Reads an object: whole, or member by member."""

    def __init__(self, cls: type[Wire]) -> None:
        info = inspect.type_info(cls)
        assert isinstance(info, inspect.StructType)
        self._cls = cls
        self._info = info
        self.implied_by = cls.implied_by
        self.blank_tag_is_missing = cls.blank_tag_is_missing
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

    def from_members(
        self, members: Mapping[str, Raw], where: str, values: dict[str, Any], *, is_implied: bool = False
    ) -> Any:
        """The object of these members, and of these values that are read already."""
        self._refuse_missing(members, where, values)
        rest = Rest()
        seen: dict[str, None] = {}
        for spelling, member in members.items():
            name = self._cls.resolve_name(spelling, where)
            if name in seen:
                raise DecodeError(f"{where}.{name}", "this member stands there in both spellings")
            seen[name] = None
            known = self.fields.get(name)
            if known is not None:
                known.read_into(values, rest, member, f"{where}.{name}")
            elif (value := _any(member)) != self._info.tag or name != self._info.tag_field:
                rest[name] = self._cls.resolve_rest(name, value, f"{where}.{name}")
        self._refuse_missing(NO_MEMBERS, where, values)
        if not rest and not is_implied:
            return self._cls(**values)
        rest.order, rest.is_implied = tuple(seen), is_implied
        return self._cls(**values, rest=rest)

    def _refuse_missing(self, members: Mapping[str, Raw], where: str, values: Mapping[str, Any]) -> None:
        """A missing member is told before a wrong one: the object may be of a type that is not known."""
        if not self._required:
            return
        present = {self._cls.resolve_name(name, where) for name, raw in members.items() if not is_null(raw)}
        for one in self._required:
            if one.attribute not in values and one.name not in present:
                raise _MissingError(where, one.name, one.noun)


_Keeps = Literal["", "other type", "unknown", "inexact", "or unknown", "empty"]


class _Field:
    """A member of a struct."""

    def __init__(self, found: inspect.Field, annotation: Any, splitter: _Splitter) -> None:
        types = list(found.type.types) if isinstance(found.type, inspect.UnionType) else [found.type]
        bare = _alternatives(found.type)
        extras = [one.extra for one in types if isinstance(one, inspect.Metadata) and one.extra]
        self.name = found.encode_name
        self.attribute = found.name
        self.is_required = found.required
        self.noun = _WORDS.get(type(bare[0]), "a member").split(" ", 1)[1]
        self._keeps: _Keeps = extras[0]["keeps"] if extras else ""
        self._takes_null = any(isinstance(one, inspect.NoneType | inspect.AnyType | inspect.RawType) for one in bare)
        self._whole = msgspec.json.Decoder(annotation).decode
        self._parts = splitter.parts(found.type)
        arrays = [one for one in bare if isinstance(one, inspect.ListType)]
        self.item_types = _alternatives(arrays[0].item_type) if arrays else []
        self.read_item = splitter.parts(arrays[0].item_type) if arrays else self._parts
        """Reads an element, where the member is an array."""

    def _read(self, raw: Raw, where: str) -> Any:
        try:
            return self._whole(raw)
        except ValidationError:
            return self._parts(raw, where)

    def read_into(self, values: dict[str, Any], rest: Rest, raw: Raw, where: str) -> None:
        """Put the member where it belongs: among the values, or into the rest."""
        if not self._takes_null and is_null(raw):
            rest[self.name] = None
            return
        try:
            value = self._read(raw, where)
        except (DecodeError, _MissingError) as error:
            if self._keeps == "or unknown" and error.where == where:
                raise _MissingError(where.removesuffix(f".{self.name}"), self.name, self.noun) from None
            if not self._stays(raw, error, where):
                raise
            rest[self.name] = _any(raw)
            return
        if self._keeps == "inexact" and isinstance(value, Wire) and value.rest is not UNSET:
            rest[self.name] = _any(raw)
        else:
            values[self.attribute] = value

    def _stays(self, raw: Raw, error: DecodeError | _MissingError, where: str) -> bool:
        """Does a value that is not of the type stay in the rest?"""
        match self._keeps:
            case "other type":
                lacks_member = isinstance(error, _MissingError) and error.owner == where
                return lacks_member or error.where in (where, f"{where}.type")
            case "unknown":
                return error.where in (where, f"{where}.type")
            case "empty":
                return not _any(raw)
        return self._keeps == "inexact"


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
