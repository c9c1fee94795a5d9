"""MCP tools that the gateway runs, in the form of the Responses API: `mcp` tools in a request, and the items
`mcp_list_tools`, `mcp_call` and `mcp_approval_request` in its answer.

The wire does not show which calls the model made in one round, but the model must get the same history again. So the
ids of all calls of a round except its first begin with `mcp_and_`. The id of the first begins with `mcp_with_` if calls
of the client's own tools follow it in the same round. Calls with other ids are rounds of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects.openai_responses.blocks import none_if_unset
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.served_history import FOLLOWED, JOINED, restore_served_calls
from toolglot.dialects.openai_responses.wire import ApprovalFilters, McpChoice, McpTool, ToolFilter
from toolglot.errors import DecodeError
from toolglot.events import Close, Open
from toolglot.ir import Opaque, Request, Tool, ToolChoice, ToolResult, native_of, replace
from toolglot.tools.served import AskedServer, ReportPiece, ServedCall, ServedForms, ServedRequest, ToolSelection
from toolglot.tools.served_history import client_call_id, result_texts
from toolglot.wire.typed import ValueReader

# Members of a tool that are only for the MCP server.
_CREDENTIALS = ("authorization", "headers")
_TOOLS, _CHOICES = ValueReader(McpTool), ValueReader(McpChoice)


def split_served_tools(request: Request) -> ServedRequest:
    if request.tool_choice is None and Opaque not in map(type, request.tools):
        return ServedRequest(request=request)
    servers: list[AskedServer] = []
    tools: list[Tool | Opaque] = []
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Opaque) and tool.dialect == NAME and tool.value.get("type") == "mcp":
            servers.append(_read_server(_TOOLS.read_value(tool.value, f"$.tools[{index}]"), f"tools[{index}]"))
        else:
            tools.append(tool)
    labels: set[str] = set()
    for server in servers:
        if server.label in labels:
            raise DecodeError(f"$.{server.where}.server_label", f"two servers have the name {server.label}")
        labels.add(server.label)
    choice, chosen = _split_choice(request.tool_choice, labels)
    if not servers and choice is request.tool_choice:
        return ServedRequest(request=request)
    return ServedRequest(
        request=replace(request, tools=tuple(tools), tool_choice=choice), servers=tuple(servers), chosen=chosen
    )


def _read_server(tool: McpTool, where: str) -> AskedServer:
    if not tool.server_label:
        raise DecodeError(f"$.{where}.server_label", "a server needs a name")
    allowed = tool.allowed_tools
    return AskedServer(
        label=tool.server_label,
        where=where,
        url=none_if_unset(tool.server_url),
        allowed=ToolSelection(names=tuple(allowed))
        if isinstance(allowed, list)
        else _read_filter(allowed) or ToolSelection(),
        credentials=any(getattr(tool, name) not in (UNSET, None) for name in _CREDENTIALS),
        **_read_approval(tool.require_approval, f"$.{where}.require_approval"),
    )


def _read_approval(rule: str | ApprovalFilters | UnsetType, where: str) -> dict[str, Any]:
    """Which calls need approval. By default every call does."""
    if rule == "never":
        return {"never_asks": ToolSelection()}
    if not isinstance(rule, ApprovalFilters):
        return {"asks": ToolSelection()}
    for name in rule.rest or ():
        if name not in ("always", "never"):
            raise DecodeError(f"{where}.{name}", "the filters are `always` and `never`")
    always, never = _read_filter(rule.always), _read_filter(rule.never)
    if always is never is None:
        return {"asks": ToolSelection()}
    return {"asks": always, "never_asks": never, "others_ask": never is not None}


def _read_filter(tools: ToolFilter | UnsetType) -> ToolSelection | None:
    if tools is UNSET:
        return None
    return ToolSelection(
        names=None if tools.tool_names is UNSET else tuple(tools.tool_names), read_only=none_if_unset(tools.read_only)
    )


def _split_choice(
    choice: ToolChoice | None, labels: set[str]
) -> tuple[ToolChoice | None, tuple[tuple[str, str | None], ...]]:
    """Split a choice into the one without tools of MCP servers, and these tools."""
    if choice is None:
        return None, ()
    notes = native_of(choice, NAME)
    wire = notes.get("choice", notes.get("$choice"))
    if not isinstance(wire, dict):
        return choice, ()
    if wire.get("type") == "mcp":
        return ToolChoice(mode="required"), (_read_choice(wire, "$.tool_choice", labels),)
    tools = wire.get("tools")
    if wire.get("type") != "allowed_tools" or not isinstance(tools, list):
        return choice, ()
    ours = [(index, tool) for index, tool in enumerate(tools) if isinstance(tool, dict) and tool.get("type") == "mcp"]
    if not ours or wire.get("mode") not in ("auto", "required"):
        return choice, ()
    # The other entries are hosted tools; `names` already has the functions and custom tools.
    rest = [
        tool for tool in tools if not isinstance(tool, dict) or tool.get("type") not in ("mcp", "function", "custom")
    ]
    native = {NAME: {"tools": rest}} if rest else {}
    chosen = tuple(_read_choice(tool, f"$.tool_choice.tools[{index}]", labels) for index, tool in ours)
    return ToolChoice(mode=wire["mode"], names=choice.names, native=native), chosen


def _read_choice(value: dict[str, Any], where: str, labels: set[str]) -> tuple[str, str | None]:
    choice = _CHOICES.read_value(value, where)
    if choice.server_label not in labels:
        message = f"there is no MCP server {choice.server_label} among the tools"
        raise DecodeError(f"{where}.server_label", message)
    return choice.server_label, none_if_unset(choice.name)


class McpCallReporter:
    """Reports one `mcp_call` item for each call, in order. Each is open while its call runs."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, ServedCall]] = deque()
        self._count = 0

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        self._waiting.extend((index, _mark_joined(call, index)) for index, call in enumerate(calls, self._count))
        self._count += len(calls)
        return self._next()

    def _next(self) -> list[ReportPiece]:
        if not self._waiting:
            return []
        index, call = self._waiting[0]
        return [Open(index, call_item(call))]

    def progress(self, call: ServedCall, message: str) -> list[ReportPiece]:
        return []

    def done(self, result: ToolResult) -> list[ReportPiece]:
        index, _ = self._waiting.popleft()
        return [Close(index=index, native={NAME: encode_outcome(result)}), *self._next()]


def _mark_joined(call: ServedCall, index: int) -> ServedCall:
    return call if call.joins or not index else replace(call, joins=True)


def call_item(call: ServedCall) -> Opaque:
    """The item of a call that is about to run."""
    return Opaque(
        NAME,
        {
            "id": client_call_id(f"mcp_{JOINED if call.joins else FOLLOWED if call.followed else ''}", call.id),
            "type": "mcp_call",
            "status": "in_progress",
            "approval_request_id": call.approval,
            "arguments": call_arguments(call),
            "error": None,
            "name": call.name,
            "output": None,
            "server_label": call.server,
        },
    )


def call_arguments(call: ServedCall) -> str:
    return call.arguments if call.arguments.strip() else "{}"


def encode_outcome(result: ToolResult) -> dict[str, Any]:
    """The members that the end of a call adds: its output, or the error."""
    texts = result_texts(result.content)
    if not result.is_error:
        return {"status": "completed", "output": "\n".join(texts)}
    content = [{"type": "text", "text": text} for text in texts]
    return {"status": "failed", "error": {"type": "mcp_tool_execution_error", "content": content}}


def approval_item(call: ServedCall) -> Opaque:
    return Opaque(
        NAME,
        {
            "id": client_call_id(f"mcpr_{JOINED}" if call.joins else "mcpr_", call.id),
            "type": "mcp_approval_request",
            "arguments": call_arguments(call),
            "name": call.name,
            "server_label": call.server,
        },
    )


def listing_item(label: str, tools: Sequence[Tool]) -> Opaque:
    return Opaque(
        NAME,
        {
            "id": f"mcpl_{sha256(label.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}",
            "type": "mcp_list_tools",
            "server_label": label,
            "tools": [
                {
                    "annotations": native_of(tool, "mcp").get("annotations"),
                    "description": tool.description,
                    "input_schema": tool.parameters if tool.parameters is not None else {"type": "object"},
                    "name": tool.name,
                }
                for tool in tools
            ],
        },
    )


SERVED = ServedForms(
    read_servers=split_served_tools,
    new_reporter=McpCallReporter,
    restore_history=restore_served_calls,
    encode_tool_list=listing_item,
    encode_approval_request=approval_item,
)
