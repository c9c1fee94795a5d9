"""Reading usage objects: counts by their paths, and the members that no count was read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

from toolglot.errors import expected
from toolglot.ir import COUNTS, Usage

Path: TypeAlias = tuple[str, ...]
"""The names of nested members."""

ORIGINAL = "$usage"
"""The native key of the usage object as it came."""


class UsageReader:
    """One usage object being read. It is left as it is."""

    __slots__ = ("_read", "_usage", "_where")

    def __init__(self, usage: Any, where: str) -> None:
        if type(usage) is not dict:
            raise expected(where, "an object", usage)
        self._usage: dict[str, Any] = usage
        self._where = where
        self._read: set[Path] = set()

    def count(self, *paths: Path) -> int | None:
        """The first of these members that is not 0. They are names for one count: all of them are read.

        None if none of them reports a count.
        """
        found: int | None = None
        for path in paths:
            value: Any = self._usage
            for name in path:
                value = value.get(name) if type(value) is dict else None
            if (type(value) is int and value >= 0) or is_count(value):
                self._read.add(path)
                found = found or int(value)
            elif not (value is None or isinstance(value, (int, float))):
                raise expected(".".join((self._where, *path)), "a whole number", value)
        return found

    def skip(self, *paths: Path) -> None:
        """These members say nothing that the counts do not."""
        self._read.update(paths)

    def rest(self) -> dict[str, Any]:
        """The members that nobody has read and that say something, by their dotted paths."""
        groups = {path[:length] for path in self._read for length in range(1, len(path))}
        return dict(self._unread((), self._usage, groups))

    def _unread(self, base: Path, fields: Mapping[str, Any], groups: set[Path]) -> Iterator[tuple[str, Any]]:
        for name, value in fields.items():
            path = (*base, name)
            if path in self._read or says_nothing(value):
                continue
            if path in groups and type(value) is dict:
                yield from self._unread(path, value, groups)
            else:
                yield ".".join(path), value


CountNames: TypeAlias = Mapping[str, "str | CountNames | None"]
"""Members of a usage object and the counts that they are. An object holds more of them; None is a member that only
`UsageReader` can read."""


def read_plain(usage: Any, names: CountNames) -> tuple[dict[str, int], dict[str, Any]] | None:
    """The counts of a usage object as its own API writes it, and the other members that say something, in one look;
    None for any other usage object, which takes a `UsageReader`."""
    if type(usage) is not dict:
        return None
    counts: dict[str, int] = {}
    rest: dict[str, Any] = {}
    for name, value in usage.items():
        known = names.get(name, "")
        if known == "":
            if name[:1] == "$":
                return None
            if value and not says_nothing(value):
                rest[name] = value
        elif known is None:
            return None
        elif value is None:
            continue
        elif type(known) is str:
            if type(value) is not int or value < 0:
                return None
            counts[known] = value
        elif type(value) is not dict or not _read_group(value, known, counts):  # type: ignore[arg-type]
            return None
    return counts, rest


def _read_group(group: dict[str, Any], names: CountNames, counts: dict[str, int]) -> bool:
    """Adds the counts of an object inside a usage object. False if there is something else in it."""
    for name, value in group.items():
        if value is None:
            continue
        if type(value) is not int or value < 0:
            return False
        known = names.get(name)
        if type(known) is str:
            counts[known] = value
        elif value or name in names:
            return False
    return True


def is_count(value: Any) -> bool:
    """Is this a number of tokens? Some servers write -1 for what they do not know."""
    return (type(value) is int or (type(value) is float and value.is_integer())) and value >= 0


def says_nothing(value: Any) -> bool:
    """Is nothing counted here? Counts may stand in an object."""
    if type(value) is dict:
        return all(inner is None or inner is False or inner in ("", 0, [], {}) for inner in value.values())
    return value is None or value is False or value in ("", 0, [])


def with_original(owner: str, usage: dict[str, Any], rest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`native` of a usage: the object as it came, and what only its owner understands of it."""
    if not rest:
        return {owner: {ORIGINAL: usage}}
    return {owner: {ORIGINAL: usage, **{key: value for key, value in rest.items() if not key.startswith("$")}}}


def original_usage(usage: Usage | None, owner: str) -> dict[str, Any]:
    """The owner's usage object as it came; empty when there is none."""
    if usage is None or owner not in usage.native:
        return {}
    came = usage.native[owner].get(ORIGINAL)
    return came if type(came) is dict else {}


def original(usage: Usage, owner: str, decode: Callable[[Any], Usage]) -> dict[str, Any] | None:
    """The owner's usage object as it came; None when there is none, or when it no longer says the same."""
    if owner not in usage.native or ORIGINAL not in usage.native[owner]:
        return None
    came = original_usage(usage, owner)
    again = decode(came)
    return dict(came) if _counts_of(again) == _counts_of(usage) else None


_counts_of = attrgetter(*COUNTS)
