"""Structs of a vendor's JSON, and the members that they do not know.

Known members have types; a member whose exact spelling matters is `Raw`. Unknown members are in `rest` of their object.
`Unknown` holds an element of a union that fits none of its types. `wire/typed.py` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import astuple

from toolglot.errors import DecodeError

_decode_any = msgspec.json.Decoder().decode

UNFILLED = "\uffff"
"""The wire name of members that no JSON can fill. Their types have no JSON form, so a peer's value is rejected."""


NO_MEMBERS: Mapping[str, Any] = {}


class Rest(dict[str, Any]):
    """Members that the type of their object does not know, and nulls for members that take none.

    `order` has the names of all members in document order. `is_implied`: the object lacks its tag, and another member
    implies it.
    """

    __slots__ = ("is_implied", "order")

    def __init__(
        self, members: Mapping[str, Any] = NO_MEMBERS, order: tuple[str, ...] = (), *, is_implied: bool = False
    ) -> None:
        super().__init__(members)
        self.order = order
        self.is_implied = is_implied


UNTAGGED = Rest(is_implied=True)
"""The rest of an object that lacks its tag and has no unknown members."""


class Verbatim:
    """A JSON value as it was received, and its path. `missing`: its type is known, but a required member is missing."""

    __slots__ = ("missing", "value", "where")

    def __init__(self, value: Any, where: str, missing: DecodeError | None = None) -> None:
        self.value = value
        self.where = where
        self.missing = missing


class Wire(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An object of a vendor's wire format. Optional members default to `UNSET`: any other default would not be written,
    and the check for repeated keys relies on everything being written."""

    implied_by: ClassVar[str] = ""
    """The member that implies this type in a union if the tag is missing and no other type's member is present."""
    blank_tag_is_missing: ClassVar[bool] = False
    """True if a null or empty tag counts as missing, with `implied_by`. The tag stays in `rest`."""

    rest: Rest | UnsetType = field(default=UNSET, name=UNFILLED)

    @classmethod
    def resolve_name(cls, name: str, where: str) -> str:
        """Map a received member name to the name that the types use; `where` is the path of its object."""
        return name

    @classmethod
    def resolve_rest(cls, name: str, value: Any, where: str) -> Any:
        """Convert the value of a member that goes to `rest`; `where` is its path."""
        return value


W = TypeVar("W", bound=Wire)


class Unknown(Wire, tag=UNFILLED, tag_field="type"):
    """An element of a tagged union with a tag or shape that no type of the union has."""

    verbatim: Verbatim


UNLESS_OTHER_TYPE = Meta(extra={"keeps": "other type"})
"""Annotation for objects: the object stays in `rest` if its `type` is unknown, or if it does not fit the form of its
type."""
UNLESS_UNKNOWN = Meta(extra={"keeps": "unknown"})
"""Like `UNLESS_OTHER_TYPE`, but an object of a known `type` that lacks a member is rejected."""
UNLESS_INEXACT = Meta(extra={"keeps": "inexact"})
"""Annotation for objects: the object stays in `rest` unless it has exactly this form."""

OR_UNKNOWN = Meta(extra={"keeps": "or unknown"})
"""Annotation for members of an object in a union: if the member has another type, the object is `Unknown`."""
UNLESS_EMPTY = Meta(extra={"keeps": "empty"})
"""Annotation for members: a value of another type stays in `rest` if it is empty or false."""

OTHER_TAG = UNFILLED
"""The tag of a type that reads objects with any tag that no other type of its union has. Their tag is in `rest`."""


def as_json(value: Any) -> Any:
    """Convert a decoded value to untyped JSON."""
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
    """Return the members of an object as untyped JSON, except those in `taken`. They have document order if `rest`
    records it, otherwise the order of the type."""
    kind = type(node)
    read = _READERS.get((kind, taken)) or _READERS.setdefault((kind, taken), member_reader(kind, *taken))
    return read(node)


_READERS: dict[tuple[type[Wire], tuple[str, ...]], Callable[[Any], dict[str, Any]]] = {}


def member_reader(kind: type[W], *taken: str, unless_null: Collection[str] = ()) -> Callable[[W], dict[str, Any]]:
    """Makes the function that reads the members of a type that are not taken, nor taken `unless_null`: a null counts as
    absent and stays, so that it comes back as the null it was.

    The function is compiled, one line for each member, as `dataclasses` does. Only a few of many members are set, and a
    loop over all of them takes three times as long.
    """
    lines = ["def read(node):", " members = {}"]
    for name, attribute in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True):
        if name in unless_null:
            lines.append(f" if node.{attribute} is None:")
            lines.append(f"  members[{name!r}] = None")
        elif name not in taken and name != UNFILLED:
            lines.append(f" if (value := node.{attribute}) is not UNSET:")
            lines.append(f"  members[{name!r}] = value if type(value) in LEAVES else as_json(value)")
    lines.append(" return members if node.rest is UNSET else with_rest(members, node.rest)")
    scope: dict[str, Any] = {"UNSET": UNSET, "LEAVES": _LEAVES, "as_json": as_json, "with_rest": _with_rest}
    exec("\n".join(lines), scope)
    read: Callable[[W], dict[str, Any]] = scope["read"]
    return read


def _with_rest(members: dict[str, Any], rest: Rest) -> dict[str, Any]:
    if not members:
        return dict(rest)
    members.update(rest)
    return {name: members[name] for name in rest.order if name in members} if rest.order else members


_LEAVES = frozenset({str, bool, int, float, dict, type(None)})


def field_reader(*names: str) -> Callable[[Any], list[tuple[str, Any]]]:
    """Make a function that lists the set fields with their values. None and an empty tuple count as not set.

    The function is compiled, like that of `member_reader`. It takes a fifth of the time of `attrgetter`.
    """
    lines = ["def read(node):", " found = []"]
    for name in names:
        lines.append(f" if (value := node.{name}) is not None and value != ():")
        lines.append(f"  found.append(({name!r}, value))")
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, " return found"]), scope)
    return scope["read"]  # type: ignore[no-any-return]


def count_members(node: Wire) -> int:
    """Count the members of an object. All unknown members together count as one."""
    values = astuple(node)
    return len(values) - values.count(UNSET)
