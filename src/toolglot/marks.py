"""Marks: JSON members that identify a document's dialect.

A mark is the path of a member: `[]` is any element of an array, `{}` a member that is an object, and `=` precedes a
member's value. Each dialect lists its own in `marks.py`; the manifest refers to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from msgspec import Struct


class Marks(Struct, frozen=True, kw_only=True):
    """The marks of one dialect, by kind of document."""

    request: frozenset[str] = frozenset()
    response: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    """A list of tools, or a request with nothing else."""
    messages: frozenset[str] = frozenset()
    """A conversation, or a request with nothing else."""
    result: frozenset[str] = frozenset()
    """Marks of a tool result, alone or in a message."""
    error: frozenset[str] = frozenset()
    stream: frozenset[str] = frozenset()
    """Marks of a stream's first event."""
    message: frozenset[str] = frozenset()
    """Marks of a single message, in files of messages in any dialect."""
    body: frozenset[str] = frozenset()
    """Marks of a request, in files of requests in any dialect."""
    decisive: frozenset[str] = frozenset()
    """Marks of any kind that prove the dialect, even next to marks of others."""
    shared: Mapping[str, frozenset[str]] = {}
    """Marks that do not prove the dialect because another dialect has them too, by kind."""


def nearest(found: Set[str], marks: Mapping[str, frozenset[str]]) -> str | None:
    """Return the dialect with most of these marks; None if no dialect has any, or if there is a tie."""
    counts = sorted(((len(found & own), name) for name, own in marks.items()), reverse=True)
    return counts[0][1] if counts[0][0] > counts[1][0] else None


_DISCRIMINATORS = ("type", "role", "object")
"""Members whose value is a mark."""


def marks_in(value: Any, depth: int, path: str = "") -> Iterator[str]:
    """Yield the paths of a document's members, down to this nesting depth of objects."""
    if not depth:
        return
    if isinstance(value, list):
        for element in value:
            yield from marks_in(element, depth, f"{path}[]")
    elif isinstance(value, dict):
        for name, member in value.items():
            inner = f"{path}.{name}" if path else name
            yield inner
            if isinstance(member, dict):
                yield f"{inner}{{}}"
            if name in _DISCRIMINATORS and isinstance(member, str):
                yield f"{inner}={member}"
            yield from marks_in(member, depth - 1, inner)
