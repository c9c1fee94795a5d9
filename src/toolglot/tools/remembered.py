"""Tools that come again: an agent declares the same ones with every request of a conversation.

To read sixty declarations, and to write their schemas again, costs more than all the rest of a usual request. So what
was read of a declaration is found again by its bytes, and what was written of its schema by the schema. Values of the
IR are never changed in place, so that requests may share them. There is room for some agents' tools: those that nobody
has declared for long go first.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from msgspec import Raw

from toolglot.ir import Json, Opaque, Tool
from toolglot.tools.declared import DECLARED
from toolglot.wire import json
from toolglot.wire.reader import Reader

ROOM = 512 * 1024
"""Bytes of declarations in each of two generations."""
_LARGEST = 64 * 1024
"""Bytes of one declaration: a larger one would drive out too many."""

T = TypeVar("T")


class _Entry:
    """A tool, and what was made of its schema, by what it is for."""

    __slots__ = ("made", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.made: dict[str, object] = {}


class _Generation:
    __slots__ = ("entries", "of_schemas", "size")

    def __init__(self) -> None:
        self.entries: dict[tuple[str, bytes], _Entry] = {}
        self.of_schemas: dict[int, _Entry] = {}
        """The same by the identity of their schemas, which they keep alive."""
        self.size = 0


class Memory:
    """Two generations of entries: what is asked for stays in the young one, and when that is full, it is the old one.
    Threads may ask at any time; what one of them does not find for a moment it makes anew."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._young = _Generation()
        self._old = _Generation()
        self._lock = Lock()

    def tool(self, dialect: str, declaration: Reader, decode: Callable[[Reader], Tool | Opaque]) -> Tool | Opaque:
        """What `decode` reads of a declaration, which depends on nothing else."""
        return self.of_bytes((dialect, json.encode(declaration.rest())), lambda: decode(declaration))

    def of_bytes(self, key: tuple[str, bytes], decode: Callable[[], Tool | Opaque]) -> Tool | Opaque:
        """The same where the bytes are there, with the name of what they are."""
        entry = self._young.entries.get(key)
        if entry is not None:
            return entry.tool
        entry = self._old.entries.get(key)
        if entry is None:
            tool = decode()
            if not isinstance(tool, Tool) or len(key[1]) > min(_LARGEST, self._room):
                return tool
            entry = _Entry(tool)
        self._add(key, entry)
        return entry.tool

    def _add(self, key: tuple[str, bytes], entry: _Entry) -> None:
        with self._lock:
            if self._young.size + len(key[1]) > self._room:
                self._old, self._young = self._young, _Generation()
            young = self._young
            young.size += len(key[1])
            young.entries[key] = entry
            if isinstance(schema := entry.tool.parameters, dict):
                young.of_schemas[id(schema)] = entry

    def made(self, schema: Json, what: str, make: Callable[[], T | None]) -> T | None:
        """What `make` makes of a schema, which depends on nothing else; None if it makes nothing, or if the schema is
        not of a tool that is remembered."""
        entry = self._young.of_schemas.get(id(schema)) or self._old.of_schemas.get(id(schema))
        if entry is None or entry.tool.parameters is not schema:
            return None
        if what not in entry.made:
            entry.made[what] = make()
        return entry.made[what]  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._young.entries.keys() | self._old.entries.keys())


MEMORY = Memory()


def written(schema: Json) -> Json:
    """The schema for an encoder of JSON: as the text that it is, if that is known."""
    known = DECLARED.written(schema)
    if known is None:
        known = MEMORY.made(schema, "json", lambda: Raw(json.encode(schema)))
    return schema if known is None else known
