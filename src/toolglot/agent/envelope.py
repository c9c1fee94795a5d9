"""Results past the SDK's models, which refuse a whole list of tools for one definition that is not quite right, and a
whole result for one block of a kind they do not know.

Each result of `tools/list` and `tools/call` is put into the `_meta` of one that the models cannot object to, on its way
from the transport to the SDK, and taken out behind it. All else that the SDK does (ids, progress, cancellation, the
headers that repeat arguments) stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolglot.agent.definitions import sound

Result: TypeAlias = dict[str, Any]

_KEY = "toolglot/result"
_UNCACHED = {"ttlMs": 0, "cacheScope": "private"}


def _call(result: Result) -> Result:
    return {"content": [], "resultType": "complete", "_meta": {_KEY: result}}


def _list(result: Result) -> Result:
    """The SDK gets of the tools what it learns the headers from, and leaves out those whose headers must not be."""
    listed = result.get("tools")
    tools, left_out = sound(listed) if isinstance(listed, list) else (None, [])
    bare = [{"name": tool["name"], "inputSchema": tool["inputSchema"]} for tool in tools or ()]
    cursor = result.get("nextCursor")
    following = {"nextCursor": cursor} if isinstance(cursor, str) and cursor else {}
    carried = {"tools": tools, "left_out": left_out}
    return {"tools": bare, **following, "resultType": "complete", **_UNCACHED, "_meta": {_KEY: carried}}


_METHODS: Mapping[str, Callable[[Result], Result]] = {"tools/call": _call, "tools/list": _list}


def opened(meta: Any) -> Any:
    """What was put into the `_meta` of a result; None where nothing was."""
    return meta.get(_KEY) if isinstance(meta, dict) else None


class Envelopes:
    """Which of our requests wait for a result that is to be put into an envelope."""

    def __init__(self) -> None:
        # Some servers make a string of the number that is a request's id, and the SDK lets them.
        self._waiting: dict[str, str] = {}

    def sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method in _METHODS:
            self._waiting[str(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._waiting.pop(str((message.params or {}).get("requestId")), None)

    def received(self, message: JSONRPCMessage) -> JSONRPCMessage:
        if not isinstance(message, (JSONRPCResponse, JSONRPCError)):
            return message
        method = self._waiting.pop(str(message.id), None)
        if method is None or isinstance(message, JSONRPCError):
            return message
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=_METHODS[method](message.result))
