"""Structs of a vendor's JSON, and what they do not know.

Known members have their types, `Raw` where the spelling counts. What no type knows is in `rest` of the object that it
stood in, and `Unknown` stands for an element of a union that none of its types fits. `wire/typed.py` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import astuple

from toolglot.errors import DecodeError

_decode_any = msgspec.json.Decoder().decode

UNFILLED = "\uffff"
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

    rest: Rest | UnsetType = field(default=UNSET, name=UNFILLED)

    @classmethod
    def resolve_name(cls, name: str, where: str) -> str:
        """The spelling that the types have for a member that came as `name`; `where` is the path of its object."""
        return name

    @classmethod
    def resolve_rest(cls, name: str, value: Any, where: str) -> Any:
        """The value of a member that goes to `rest`; `where` is its path."""
        return value


class Unknown(Wire, tag=UNFILLED, tag_field="type"):
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

OTHER_TAG = UNFILLED
"""The tag of a type that reads objects of all tags that no other type of its union has. Their tag is in `rest`."""


def as_json(value: Any) -> Any:
    """What was read, as untyped JSON."""
    if isinstance(value, Unknown):
        return value.verbatim.value
    if isinstance(value, Wire):
        return {**_tag(value), **members_without(value)}
    if isinstance(value, Raw):
        return _decode_any(value)
    return [as_json(one) for one in value] if type(value) is list else value


def _tag(node: Wire) -> dict[str, Any]:
    config = node.__struct_config__
    if config.tag is None or (node.rest is not UNSET and (node.rest.is_implied or config.tag_field in node.rest)):
        return {}
    return {str(config.tag_field): config.tag}


def members_without(node: Wire, *taken: str) -> dict[str, Any]:
    """The members of an object as untyped JSON, without those that are taken. They have the order of the document where
    `rest` tells it, else that of the types."""
    kind = type(node)
    read = _READERS.get((kind, taken)) or _member_reader(kind, taken)
    return read(node)


_READERS: dict[tuple[type[Wire], tuple[str, ...]], Callable[[Wire], dict[str, Any]]] = {}


def _member_reader(kind: type[Wire], taken: tuple[str, ...]) -> Callable[[Wire], dict[str, Any]]:
    """Makes the function that reads the members of a type that are not taken. Decoders take them in a few combinations.

    It is compiled, a line for each member, as `dataclasses` does: of many members few are set, and a loop over all of
    them takes three times as long.
    """
    lines = ["def read(node):", " members = {}"]
    for name, attribute in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True):
        if name not in taken and name != UNFILLED:
            lines.append(f" if (value := node.{attribute}) is not UNSET:")
            lines.append(f"  members[{name!r}] = value if type(value) in LEAVES else as_json(value)")
    lines.append(" return members if node.rest is UNSET else with_rest(members, node.rest)")
    scope: dict[str, Any] = {"UNSET": UNSET, "LEAVES": _LEAVES, "as_json": as_json, "with_rest": _with_rest}
    exec("\n".join(lines), scope)
    return _READERS.setdefault((kind, taken), scope["read"])


def _with_rest(members: dict[str, Any], rest: Rest) -> dict[str, Any]:
    if not members:
        return dict(rest)
    members.update(rest)
    return {name: members[name] for name in rest.order if name in members} if rest.order else members


_LEAVES = frozenset({str, bool, int, float, dict, type(None)})


def field_reader(*names: str) -> Callable[[Any], list[tuple[str, Any]]]:
    """Makes a function that lists those of these fields that are set, with their values: neither None nor empty tuples.

    It is compiled as that of `_member_reader`: to ask for an attribute takes a fifth of what `attrgetter` takes.
    """
    lines = ["def read(node):", " found = []"]
    for name in names:
        lines.append(f" if (value := node.{name}) is not None and value != ():")
        lines.append(f"  found.append(({name!r}, value))")
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, " return found"]), scope)
    return scope["read"]  # type: ignore[no-any-return]


def count_members(node: Wire) -> int:
    """How many members an object has; those that its type does not know count as one."""
    values = astuple(node)
    return len(values) - values.count(UNSET)
