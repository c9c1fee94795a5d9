"""Served MCP tools in the Messages API: `mcp_servers` and `mcp_toolset` tools in a request (beta
`mcp-client-2025-11-20`; `mcp-client-2025-04-04` had no toolsets), and the blocks `mcp_tool_use` and `mcp_tool_result`
in its answer.

All calls of a round come before its first result. This separates the rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects.anthropic.native import NAME, decode_cache
from toolglot.dialects.anthropic.wire import (
    McpServer,
    McpToolConfig,
    McpToolResult,
    McpToolset,
    McpToolUse,
    TextBlock,
)
from toolglot.errors import DecodeError
from toolglot.events import Close, Open
from toolglot.ir import Block, Message, Opaque, Request, Text, Tool, ToolCall, ToolResult, native_of, replace
from toolglot.tools.served import (
    AskedServer,
    ReportPiece,
    RestoredHistory,
    ServedCall,
    ServedForms,
    ServedRequest,
    ToolSelection,
)
from toolglot.tools.served_history import HistoryCallIds, client_call_id, interrupted_result, result_texts
from toolglot.wire import json
from toolglot.wire.structs import Unknown
from toolglot.wire.typed import ValueReader

_SERVERS, _TOOLSETS, _CONFIGS = ValueReader(list[McpServer]), ValueReader(McpToolset), ValueReader(McpToolConfig)
_USES, _RESULTS = ValueReader(McpToolUse), ValueReader(McpToolResult)
_PREFIX = "mcptoolu_"
_BLOCKS = ("mcp_tool_use", "mcp_tool_result", "mcp_tool_listing")


def extract_mcp_servers(request: Request) -> ServedRequest:
    """Find the MCP servers of a request, and remove them from it.

    A server without a toolset follows the older beta: all of its tools, or those that its own configuration allows.
    """
    listed = native_of(request, NAME).get("mcp_servers")
    if listed is None and Opaque not in map(type, request.tools):
        return ServedRequest(request=request)
    toolsets = [
        (index, _TOOLSETS.read_value(tool.value, f"$.tools[{index}]"))
        for index, tool in enumerate(request.tools)
        if isinstance(tool, Opaque) and _type_of(tool) == "mcp_toolset"
    ]
    if listed is None and not toolsets:
        return ServedRequest(request=request)
    servers: dict[str, AskedServer] = {}
    for index, given in enumerate(_SERVERS.read_value([] if listed is None else listed, "$.mcp_servers")):
        server = _decode_server(given, f"mcp_servers[{index}]")
        if server.label in servers:
            raise DecodeError(f"$.{server.where}.name", f"two servers have the name {server.label}")
        servers[server.label] = server
    configured: set[str] = set()
    for index, toolset in toolsets:
        label, where = toolset.mcp_server_name, f"$.tools[{index}]"
        if label not in servers:
            raise DecodeError(f"{where}.mcp_server_name", f"there is no MCP server {label} in mcp_servers")
        if label in configured:
            raise DecodeError(f"{where}.mcp_server_name", f"there are two toolsets of the MCP server {label}")
        configured.add(label)
        servers[label] = _apply_toolset(servers[label], toolset, where)
    taken = {index for index, _ in toolsets}
    own = {key: value for key, value in native_of(request, NAME).items() if key != "mcp_servers"}
    native = {
        **{owner: fields for owner, fields in request.native.items() if owner != NAME},
        **({NAME: own} if own else {}),
    }
    tools = tuple(tool for index, tool in enumerate(request.tools) if index not in taken)
    return ServedRequest(request=replace(request, tools=tools, native=native), servers=tuple(servers.values()))


def _type_of(block: Block | Tool) -> str | None:
    """Return the wire type of a block or tool that only this dialect understands. None for others."""
    if not isinstance(block, Opaque) or block.dialect != NAME or not isinstance(block.value, dict):
        return None
    kind = block.value.get("type")
    return kind if isinstance(kind, str) else None


def _decode_server(server: McpServer, where: str) -> AskedServer:
    if not server.name:
        raise DecodeError(f"$.{where}.name", "a server needs a name")
    settings = server.tool_configuration
    names = settings.allowed_tools if settings else UNSET
    if settings and settings.enabled is False:
        names = []
    return AskedServer(
        label=server.name,
        where=where,
        url=server.url,
        allowed=ToolSelection(names=None if names is UNSET else tuple(names)),
        credentials=server.authorization_token not in (UNSET, None),
    )


def _apply_toolset(server: AskedServer, toolset: McpToolset, where: str) -> AskedServer:
    """Restrict a server's tools to those that a toolset enables, by default or by name."""
    enabled: dict[str, bool] = {}
    for name, value in (toolset.configs or {}).items():
        config = None if value is None else _CONFIGS.read_value(value, f"{where}.configs.{name}")
        if config is not None and config.enabled is not UNSET:
            enabled[name] = config.enabled
    if not toolset.default_config or toolset.default_config.enabled is not False:
        return replace(server, refused=tuple(name for name, flag in enabled.items() if not flag))
    before = server.allowed.names
    names = tuple(name for name, flag in enabled.items() if flag and (before is None or name in before))
    return replace(server, allowed=ToolSelection(names=names))


class McpBlockReporter:
    """Reports all calls of a round at once, then each result as it arrives, in whole blocks."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._next = 0

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        uses = [_encode_use(call) for call in calls]
        self._waiting.extend(use["id"] for use in uses)
        return [piece for use in uses for piece in self._whole(use)]

    def progress(self, call: ServedCall, message: str) -> list[ReportPiece]:
        return []

    def done(self, result: ToolResult) -> list[ReportPiece]:
        return self._whole(
            {
                "type": "mcp_tool_result",
                "tool_use_id": self._waiting.popleft(),
                "is_error": bool(result.is_error),
                "content": [{"type": "text", "text": text} for text in result_texts(result.content)],
            }
        )

    def _whole(self, block: dict[str, Any]) -> list[ReportPiece]:
        index, self._next = self._next, self._next + 1
        return [Open(index, Opaque(NAME, block)), Close(index=index)]


def _encode_use(call: ServedCall) -> dict[str, Any]:
    """Encode a call. Arguments that are not an object are wrapped unchanged in one."""
    arguments = json.object_value(call.arguments)
    given = {"_raw": call.arguments} if arguments is None else arguments
    called = {"id": client_call_id(_PREFIX, call.id), "name": call.name, "server_name": call.server}
    return {"type": "mcp_tool_use", **called, "input": given}


def restore_history(request: Request, name: Callable[[str, str], str]) -> RestoredHistory:
    listed: dict[str, None] = {}
    if not any(_type_of(block) in _BLOCKS for message in request.messages for block in message.content):
        return RestoredHistory(request=request)
    history = AnthropicHistoryRestorer(request, name)
    leading = sum(1 for message in request.messages[:1] if _is_leading(message))
    later = _find_later_results(request.messages)
    for index, message in enumerate(request.messages):
        for block in message.content:
            if _type_of(block) == "mcp_tool_listing" and isinstance(block, Opaque):
                listed[str(block.value.get("mcp_server_name"))] = None
        follows = request.messages[index + 1 : index + 2]
        is_last = not follows or follows[0].role != "assistant"
        history.add(message, f"$.messages[{index - leading}]", is_last=is_last, later=later[index])
    history.close()
    return RestoredHistory(request=replace(request, messages=tuple(history.messages)), listed=tuple(listed))


def _find_later_results(messages: Sequence[Message]) -> list[frozenset[str]]:
    """Return the calls, for each message, whose results are in later messages of the same answer: clients may split
    one.
    """
    later: list[frozenset[str]] = []
    ids: frozenset[str] = frozenset()
    for message in reversed(messages):
        ids = ids if message.role == "assistant" else frozenset()
        later.append(ids)
        ids |= {
            str(block.value.get("tool_use_id"))
            for block in message.content
            if isinstance(block, Opaque) and _type_of(block) == "mcp_tool_result"
        }
    return later[::-1]


def _is_leading(message: Message) -> bool:
    return message.role == "system" and not native_of(message, NAME).get("$inline")


class AnthropicHistoryRestorer:
    """Rewrites messages with served calls as calls and results. A message is split where a round ends inside it."""

    def __init__(self, request: Request, name: Callable[[str, str], str]) -> None:
        self._name = name
        self._ids = HistoryCallIds(request, (_PREFIX,))
        self._message = Message(role="assistant")  # the one that is being written
        self._blocks: list[Block] = []
        self._calls: dict[str, ToolCall] = {}  # calls of this round, by the client's id
        self._results: dict[str, ToolResult] = {}
        self._pending_results: tuple[Block, ...] = ()  # results that belong beside those of the client's own calls
        self.messages: list[Message] = []

    def add(self, message: Message, where: str, *, is_last: bool, later: Set[str]) -> None:
        """Add a message. `is_last`: the turn ends here, so that no results of its calls can follow. `later`: the calls
        whose results are in later messages.
        """
        has_blocks = any(_type_of(block) in _BLOCKS for block in message.content)
        if message.role != "assistant" or not (has_blocks or not later.isdisjoint(self._calls)):
            self._whole(message)
            return
        self._flush_pending_results()
        self._message = self._message if self._blocks else message
        for index, block in enumerate(message.content):
            kind = _type_of(block)
            if kind == "mcp_tool_result" and isinstance(block, Opaque):
                path = f"{where}.content[{index}]"
                self._add_result(_RESULTS.read_value(block.value, path), path)
            elif kind != "mcp_tool_listing":
                if self._results:
                    self._end_round()
                if kind == "mcp_tool_use" and isinstance(block, Opaque):
                    path = f"{where}.content[{index}]"
                    block = self._add_call(_USES.read_value(block.value, path), path)
                self._blocks.append(block)
        if is_last or len(self._results) == len(self._calls):
            self._end_round(is_last=True)

    def _whole(self, message: Message) -> None:
        if self._blocks:
            self._end_round()
        if self._pending_results and message.role == "user":
            # The API requires all results of a message's calls at the start of the next message.
            message, self._pending_results = replace(message, content=(*self._pending_results, *message.content)), ()
        self._flush_pending_results()
        self.messages.append(message)

    def close(self) -> None:
        self._flush_pending_results()

    def _flush_pending_results(self) -> None:
        if self._pending_results:
            self.messages.append(Message(role="user", content=self._pending_results))
            self._pending_results = ()

    def _add_call(self, use: McpToolUse, where: str) -> ToolCall:
        if use.id in self._calls:
            raise DecodeError(f"{where}.id", f"two calls have the id {use.id}")
        call = self._calls[use.id] = ToolCall(
            id=self._ids.of(use.id),
            name=self._name(use.server_name, use.name),
            arguments=json.encode_text(use.input or {}),
            cache=decode_cache(use.cache_control),
        )
        return call

    def _add_result(self, result: McpToolResult, where: str) -> None:
        use_id = result.tool_use_id
        call = self._calls.get(use_id)
        if call is None or use_id in self._results:
            raise DecodeError(f"{where}.tool_use_id", f"no call {use_id} stands before it that waits for a result")
        self._results[use_id] = ToolResult(
            call_id=call.id,
            name=call.name,
            content=_decode_result_content(result.content),
            is_error=bool(result.is_error),
            cache=decode_cache(result.cache_control),
        )

    def _end_round(self, *, is_last: bool = False) -> None:
        """Emit the collected blocks and the results of their calls. A call without a result was interrupted."""
        if self._blocks:
            self.messages.append(replace(self._message, content=tuple(self._blocks)))
            # Native members of the message belong to its first part only.
            self._message = Message(role="assistant")
        results = tuple(self._results.get(use_id) or interrupted_result(call) for use_id, call in self._calls.items())
        known = {call.id for call in self._calls.values()}
        owned = any(isinstance(block, ToolCall) and block.id not in known for block in self._blocks)
        self._pending_results = results
        if not (is_last and owned):
            self._flush_pending_results()
        self._blocks, self._calls, self._results = [], {}, {}


def _decode_result_content(content: str | list[TextBlock | Unknown] | UnsetType) -> tuple[Block, ...]:
    if isinstance(content, list):
        return tuple(_decode_result_part(part) for part in content)
    return (Text(text=content),) if content else ()


def _decode_result_part(part: TextBlock | Unknown) -> Block:
    """Decode a part of a result. The API defines only text."""
    if isinstance(part, TextBlock):
        return Text(text=part.text)
    if part.verbatim.missing is not None:
        raise part.verbatim.missing
    return Opaque(NAME, part.verbatim.value)


SERVED = ServedForms(read_servers=extract_mcp_servers, new_reporter=McpBlockReporter, restore_history=restore_history)
