"""Tools of recent requests, found by the bytes of their declarations.

An agent declares the same tools with every request of a conversation. To read them, and to write their schemas again,
costs more than all the rest of a usual request. So the member `tools` is kept as it came, with what was read of it: the
same bytes give the same tools. Values of the IR are never changed in place, so requests may share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, TypeVar

from msgspec import Raw

from toolglot.ir import Json, Opaque, Tool
from toolglot.wire import json

ROOM = 1024 * 1024
"""Bytes of declarations in each of two generations."""
_TAIL = 64
"""Bytes that the key has: to compare 50 KB costs a fifth of what it costs to hash them."""

T = TypeVar("T")
_Key = tuple[str, int, bytes]


class _Declared:
    """Declarations, what was read of them, and the schemas in it as JSON text, by identity."""

    __slots__ = ("data", "read", "schemas", "written")

    def __init__(self, data: bytes, read: Any, tools: Iterable[Tool | Opaque]) -> None:
        self.data = data
        self.read = read
        self.schemas = {
            id(tool.parameters): tool.parameters
            for tool in tools
            if type(tool) is Tool and type(tool.parameters) is dict
        }
        self.written: dict[int, Raw] = {}


class _Generation:
    __slots__ = ("by_key", "by_schema", "size")

    def __init__(self) -> None:
        self.by_key: dict[_Key, _Declared] = {}
        self.by_schema: dict[int, _Declared] = {}
        self.size = 0


class DeclaredTools:
    """Two generations of declarations. What is used moves to the young one; when that is full, it becomes the old one.
    Threads may use it at any time: what one of them does not find for a moment it reads anew."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._young = _Generation()
        self._old = _Generation()
        self._lock = Lock()

    def read(
        self,
        dialect: str,
        raw: bytes | Raw,
        decode: Callable[[bytes], T],
        tools_of: Callable[[T], Iterable[Tool | Opaque]],
    ) -> T:
        """What `decode` reads of these declarations, which depends on nothing else. `tools_of` finds its tools."""
        data = bytes(raw)
        key = (dialect, len(data), data[-_TAIL:])
        declared = self._young.by_key.get(key)
        if declared is None or declared.data != data:
            declared = self._old.by_key.get(key)
            if declared is None or declared.data != data:
                read = decode(data)
                if len(data) > self._room:
                    return read
                declared = _Declared(data, read, tools_of(read))
            self._add(key, declared)
        return declared.read  # type: ignore[no-any-return]

    def _add(self, key: _Key, declared: _Declared) -> None:
        with self._lock:
            if self._young.size + len(declared.data) > self._room:
                self._old, self._young = self._young, _Generation()
            young = self._young
            replaced = young.by_key.get(key)
            if replaced is not None:
                young.size -= len(replaced.data)
                for schema in replaced.schemas:
                    young.by_schema.pop(schema, None)
            young.size += len(declared.data)
            young.by_key[key] = declared
            young.by_schema.update(dict.fromkeys(declared.schemas, declared))

    def written(self, schema: Json) -> Raw | None:
        """The JSON text of a schema; None if it is not of a tool that is remembered."""
        declared = self._young.by_schema.get(id(schema)) or self._old.by_schema.get(id(schema))
        if declared is None or declared.schemas[id(schema)] is not schema:
            return None
        text = declared.written.get(id(schema))
        if text is None:
            text = declared.written[id(schema)] = Raw(json.encode(schema))
        return text

    def __len__(self) -> int:
        return len(self._young.by_key.keys() | self._old.by_key.keys())


DECLARED = DeclaredTools()
