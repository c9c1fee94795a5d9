"""Read usage objects: counts by their paths, and the members that are not counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

from toolglot.errors import expected
from toolglot.ir import COUNTS, Usage

Path: TypeAlias = tuple[str, ...]
"""The names of nested members, outermost first."""

_MAX_DIGITS = 16
ORIGINAL = "$usage"
"""The native key of the usage object as it was received."""


class UsageReader:
    """Reads one usage object without changing it, and remembers which members were read."""

    __slots__ = ("_read", "_usage")

    def __init__(self, usage: Any, where: str) -> None:
        if type(usage) is not dict:
            raise expected(where, "an object", usage)
        self._usage: dict[str, Any] = usage
        self._read: set[Path] = set()

    def count(self, *paths: Path) -> int | None:
        """Return the first of these members that is not 0, or None if no member reports a count.

        The paths are names for the same count, so all paths with a count are marked as read. A number in a string is a
        count. A value of any other type stays in the rest, which is reported.
        """
        found: int | None = None
        for path in paths:
            value: Any = self._usage
            for name in path:
                value = value.get(name) if type(value) is dict else None
            if (type(value) is int and value >= 0) or is_count(value) or _is_number(value):
                self._read.add(path)
                found = found or int(value)
        return found

    def skip(self, *paths: Path) -> None:
        """Mark members as read that add nothing to the counts."""
        self._read.update(paths)

    def rest(self) -> dict[str, Any]:
        """Return the unread members that are not empty, by dotted path."""
        groups = {path[:length] for path in self._read for length in range(1, len(path))}
        return dict(self._unread((), self._usage, groups))

    def _unread(self, base: Path, fields: Mapping[str, Any], groups: set[Path]) -> Iterator[tuple[str, Any]]:
        for name, value in fields.items():
            path = (*base, name)
            if path in self._read or is_empty_count(value):
                continue
            if path in groups and type(value) is dict:
                yield from self._unread(path, value, groups)
            else:
                yield ".".join(path), value


CountNames: TypeAlias = Mapping[str, "str | CountNames | None"]
"""Maps members of a usage object to the names of counts. A nested mapping describes a nested object; None marks a
member that only `UsageReader` can read."""


def read_plain(usage: Any, names: CountNames) -> tuple[dict[str, int], dict[str, Any]] | None:
    """Read a usage object in its API's own form in one pass: the counts, and the other members that are not empty.

    Returns None for any other form, which needs a `UsageReader`.
    """
    if type(usage) is not dict:
        return None
    counts: dict[str, int] = {}
    rest: dict[str, Any] = {}
    for name, value in usage.items():
        known = names.get(name, "")
        if known == "":
            if name[:1] == "$":
                return None
            if value and not is_empty_count(value):
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
    """Add the counts of a nested object. Returns False if the object holds anything else."""
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
    """Return whether this is a number of tokens. Some servers write -1 for an unknown count."""
    return (type(value) is int or (type(value) is float and value.is_integer())) and value >= 0


def _is_number(value: Any) -> bool:
    """Return whether this is a whole number in a string."""
    return type(value) is str and value.isascii() and value.isdecimal() and len(value) < _MAX_DIGITS


def is_empty_count(value: Any) -> bool:
    """Return whether this is empty or 0, or an object that holds nothing else."""
    if type(value) is dict:
        return all(inner is None or inner is False or inner in ("", 0, [], {}) for inner in value.values())
    return value is None or value is False or value in ("", 0, [])


def with_original(owner: str, usage: dict[str, Any], rest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Build `native` of a usage: the original object, and the members that only its owner understands."""
    if not rest:
        return {owner: {ORIGINAL: usage}}
    return {owner: {ORIGINAL: usage, **{key: value for key, value in rest.items() if not key.startswith("$")}}}


def original_usage(usage: Usage | None, owner: str) -> dict[str, Any]:
    """Return the owner's usage object as it was received; empty if there is none."""
    if usage is None or owner not in usage.native:
        return {}
    came = usage.native[owner].get(ORIGINAL)
    return came if type(came) is dict else {}


def unchanged_original(usage: Usage, owner: str, decode: Callable[[Any], Usage]) -> dict[str, Any] | None:
    """Return the owner's usage object as received; None if there is none, or if the counts have changed since."""
    if owner not in usage.native or ORIGINAL not in usage.native[owner]:
        return None
    came = original_usage(usage, owner)
    again = decode(came)
    return dict(came) if _counts_of(again) == _counts_of(usage) else None


_counts_of = attrgetter(*COUNTS)
