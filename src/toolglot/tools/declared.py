"""Tools of recent requests, found by the bytes of their declarations, and what was made of them.

An agent declares the same tools with every request of a conversation. To read them, to fit them to a target and to
write them again costs more than all the rest of a usual request. So the member `tools` is kept as it came, with what
was read of it: the same bytes give the same tools. What a pass or an encoder makes of such tools is kept beside them
(`derive`). Values of the IR are never changed in place, so requests may share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, ParamSpec, TypeAlias, TypeVar

from msgspec import Raw

from toolglot.ir import Json, Opaque, Tool
from toolglot.receipt import Loss, Receipt
from toolglot.wire import json

ROOM = 2 * 1024 * 1024
"""Bytes of declarations, and of what was written of them, in each of two generations."""
_OVERHEAD = 1024
"""Bytes that count for each declaration beside its text: its objects, which outweigh the text of a small one."""
_TAIL = 64
"""Bytes that the key has: to compare 50 KB costs a fifth of what it costs to hash them."""
_MOST_DERIVED = 16
"""Things that are kept of the same tools: the targets that they are sent to."""

Tools: TypeAlias = tuple[Tool | Opaque, ...]
T = TypeVar("T")
P = ParamSpec("P")
_Key = tuple[str, int, bytes]


class _Known:
    """Tools that are remembered, and what was made of them: by what it is and for whom, both kept alive."""

    __slots__ = ("declared", "derived", "tools")

    def __init__(self, tools: Tools, declared: _Declared) -> None:
        self.tools = tools
        self.declared = declared
        self.derived: dict[tuple[str, int], tuple[object, Any]] = {}


class _Declared:
    """Declarations and what was read of them. By their identity: the tools in it and those made of them; their schemas,
    and what was made of those."""

    __slots__ = ("data", "key", "known", "of_schemas", "read", "schemas", "size")

    def __init__(self, key: _Key, data: bytes, read: Any, tools: Tools, size: int) -> None:
        self.key = key
        self.data = data
        self.size = size + _OVERHEAD
        self.read = read
        self.known = {id(tools): _Known(tools, self)} if tools else {}
        self.schemas = {
            id(tool.parameters): tool.parameters
            for tool in tools
            if type(tool) is Tool and type(tool.parameters) is dict
        }
        self.of_schemas: dict[tuple[str, int], Any] = {}


class _Generation:
    __slots__ = ("by_key", "by_schema", "by_tools", "size")

    def __init__(self) -> None:
        self.by_key: dict[_Key, _Declared] = {}
        self.by_schema: dict[int, _Declared] = {}
        self.by_tools: dict[int, _Known] = {}
        self.size = 0


class DeclaredTools:
    """Two generations of declarations. What is used moves to the young one; when that is full, it becomes the old one.
    Threads may use it at any time: what one of them does not find for a moment it makes anew."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._young = _Generation()
        self._old = _Generation()
        self._latest: _Known | None = None  # passes and the encoder ask for the same tools one after the other
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
                declared = _Declared(key, data, read, tuple(tools_of(read)), len(data))
            self._add(declared)
        return declared.read  # type: ignore[no-any-return]

    def adopt(self, tools: Tools, size: int) -> None:
        """Remember tools that came back without their declarations, which had about this size."""
        if tools and size <= self._room and self._find(tools) is None:
            self._add(_Declared(("", id(tools), b""), b"", None, tools, size))

    def _add(self, declared: _Declared) -> None:
        key = declared.key
        with self._lock:
            if self._young.size + declared.size > self._room:
                self._old, self._young, self._latest = self._young, _Generation(), None
            young = self._young
            replaced = young.by_key.get(key)
            if replaced is not None:
                young.size -= replaced.size
                for schema in replaced.schemas:
                    young.by_schema.pop(schema, None)
                for tools in replaced.known:
                    young.by_tools.pop(tools, None)
            young.size += declared.size
            young.by_key[key] = declared
            young.by_schema.update(dict.fromkeys(declared.schemas, declared))
            young.by_tools.update(declared.known)

    def derive(
        self, tools: Tools, what: str, owner: object, make: Callable[P, T], *args: P.args, **more: P.kwargs
    ) -> T:
        """What `make` makes of tools, which depends on nothing but them, `what` and `owner`. It is made anew unless
        the tools are remembered."""
        known = self._find(tools)
        if known is None:
            return make(*args, **more)
        entry = known.derived.get((what, id(owner)))
        if entry is None or entry[0] is not owner:
            entry = owner, make(*args, **more)
            if len(known.derived) >= _MOST_DERIVED:
                known.derived.clear()
            known.derived[what, id(owner)] = entry
        value: T = entry[1]
        return value

    def rewrite(
        self, tools: Tools, what: str, owner: object, make: Callable[[Receipt], Tools], receipt: Receipt
    ) -> Tools:
        """The tools that a pass makes of others, and its lines on them in the receipt. They are remembered as well."""
        known = self._find(tools)
        if known is None:
            return make(receipt)

        def record() -> tuple[Tools, tuple[Loss, ...]]:
            lines = Receipt()
            return make(lines), tuple(lines)

        made, lines = self.derive(tools, what, owner, record)
        if lines:
            receipt.add(lines)
        if made and self._find(made) is None:
            self._register(made, known.declared)
        return made

    def _find(self, tools: Tools) -> _Known | None:
        known = self._latest
        if known is not None and known.tools is tools:
            return known
        known = self._young.by_tools.get(id(tools))
        if known is not None and known.tools is tools:
            self._latest = known
            return known
        known = self._old.by_tools.get(id(tools))
        if known is None or known.tools is not tools:
            return None
        self._add(known.declared)
        return known

    def _register(self, tools: Tools, declared: _Declared) -> None:
        with self._lock:
            if len(declared.known) > _MOST_DERIVED:
                return
            known = declared.known[id(tools)] = _Known(tools, declared)
            self._young.by_tools[id(tools)] = known

    def write(self, tools: Tools, what: str, make: Callable[[Receipt], T], receipt: Receipt) -> T | Raw | None:
        """The JSON value that `make` makes of tools, as its text if they are remembered; None if it is empty. Its lines
        on the tools go to the receipt."""
        known = self._find(tools) if tools else None
        if known is None:
            return make(receipt) or None
        text, lines = self.derive(tools, what, None, self._encode, known, make)
        if lines:
            receipt.add(lines)
        return text

    def _encode(self, known: _Known, make: Callable[[Receipt], T]) -> tuple[Raw | None, tuple[Loss, ...]]:
        lines = Receipt()
        made = make(lines)
        text = json.encode(made) if made else b""
        known.declared.size += len(text)
        self._young.size += len(text)
        return Raw(text) if made else None, tuple(lines)

    def derive_from_schema(self, schema: Json, what: str, make: Callable[[], T]) -> T | None:
        """What `make` makes of a schema, which depends on nothing else; None if the schema is not of a tool that is
        remembered."""
        declared = self._young.by_schema.get(id(schema)) or self._old.by_schema.get(id(schema))
        if declared is None or declared.schemas[id(schema)] is not schema:
            return None
        key = what, id(schema)
        if key not in declared.of_schemas:
            declared.of_schemas[key] = make()
        return declared.of_schemas[key]  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._young.by_key.keys() | self._old.by_key.keys())


DECLARED = DeclaredTools()


def written(schema: Json) -> Json:
    """The schema for an encoder of JSON: as the text that it is, if that is known."""
    known = DECLARED.derive_from_schema(schema, "json", lambda: Raw(json.encode(schema)))
    return schema if known is None else known
