"""Find the names of the tools that a request declares. Recordings keep them even if a pattern matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

_TOOL_MEMBERS = ("function", "custom", "functionDeclarations", "function_declarations", "tools")
"""Members that describe a tool or contain further tools."""


class _RequestTools(Struct):
    """A JSON request of any API, or an MCP server in the line `served.tools`."""

    tools: Any = None
    functions: Any = None


_decoder = msgspec.json.Decoder(_RequestTools | list[_RequestTools])


def declared_tool_names(body: bytes) -> frozenset[str]:
    """Return their names; empty if this is not a request."""
    try:
        read = _decoder.decode(body)
        requests = read if isinstance(read, list) else [read]
        return frozenset(name for each in requests for name in _tool_names([each.tools, each.functions]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return frozenset()


def _tool_names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _tool_names(each)
    elif isinstance(value, dict):
        if isinstance(name := value.get("name"), str):
            yield name
        for holder in _TOOL_MEMBERS:
            yield from _tool_names(value.get(holder))
