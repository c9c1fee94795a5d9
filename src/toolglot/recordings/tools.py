"""The tools that a request declares, as far as their names go: recordings tell those, whatever a pattern matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

_HOLDERS = ("function", "custom", "functionDeclarations", "function_declarations", "tools")
"""Members of a tool in which it is described, or others are."""


class _Declaring(Struct):
    """A request of any API that is JSON, or an MCP server in the line `served.tools`."""

    tools: Any = None
    functions: Any = None


_decoder = msgspec.json.Decoder(_Declaring | list[_Declaring])


def declared(body: bytes) -> frozenset[str]:
    """Their names; none where this is no request."""
    try:
        read = _decoder.decode(body)
        requests = read if isinstance(read, list) else [read]
        return frozenset(name for each in requests for name in _names([each.tools, each.functions]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return frozenset()


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _names(each)
    elif isinstance(value, dict):
        if isinstance(name := value.get("name"), str):
            yield name
        for holder in _HOLDERS:
            yield from _names(value.get(holder))
