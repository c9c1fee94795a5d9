"""Carry results past the SDK's models, which refuse a whole list of tools for one imperfect definition, and a whole
result for one block of an unknown kind.

Each result of `tools/list` and `tools/call` is wrapped in the `_meta` of a result that the models accept, between the
transport and the SDK, and unwrapped after it. Everything else that the SDK does (ids, progress, cancellation, the
headers that repeat arguments) is unaffected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolglot.agent.tool_definitions import usable_definitions

Result: TypeAlias = dict[str, Any]

_KEY = "toolglot/result"
_UNCACHED = {"ttlMs": 0, "cacheScope": "private"}


def _wrap_call(result: Result) -> Result:
    return {"content": [], "resultType": "complete", "_meta": {_KEY: result}}


def _wrap_list(result: Result) -> Result:
    """Wrap a list of tools. The SDK gets the part from which it learns the headers, and skips tools with forbidden
    headers.
    """
    listed = result.get("tools")
    tools, left_out = usable_definitions(listed) if isinstance(listed, list) else (None, [])
    bare = [{"name": tool["name"], "inputSchema": tool["inputSchema"]} for tool in tools or ()]
    cursor = result.get("nextCursor")
    following = {"nextCursor": cursor} if isinstance(cursor, str) and cursor else {}
    carried = {"tools": tools, "left_out": left_out}
    return {"tools": bare, **following, "resultType": "complete", **_UNCACHED, "_meta": {_KEY: carried}}


_METHODS: Mapping[str, Callable[[Result], Result]] = {"tools/call": _wrap_call, "tools/list": _wrap_list}


def open_envelope(meta: Any) -> Any:
    """Return the value that is wrapped in the `_meta` of a result; None if there is none."""
    return meta.get(_KEY) if isinstance(meta, dict) else None


class ResultEnvelopes:
    """Requests of this client whose results must be wrapped."""

    def __init__(self) -> None:
        # Some servers convert a request's numeric id to a string, and the SDK accepts that.
        self._waiting: dict[str, str] = {}

    def on_sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method in _METHODS:
            self._waiting[str(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._waiting.pop(str((message.params or {}).get("requestId")), None)

    def on_received(self, message: JSONRPCMessage) -> JSONRPCMessage:
        if not isinstance(message, (JSONRPCResponse, JSONRPCError)):
            return message
        method = self._waiting.pop(str(message.id), None)
        if method is None or isinstance(message, JSONRPCError):
            return message
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=_METHODS[method](message.result))
