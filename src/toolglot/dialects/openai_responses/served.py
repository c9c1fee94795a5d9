"""MCP tools that the gateway runs, in the form of the Responses API: `mcp` tools in a request, and the items
`mcp_list_tools`, `mcp_call` and `mcp_approval_request` in its answer.

The wire does not show which calls the model made in one round, but the model must get the same history again. So the
ids of all calls of a round except its first begin with `mcp_and_`. The id of the first begins with `mcp_with_` if calls
of the client's own tools follow it in the same round. Calls with other ids are rounds of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects.openai_responses.blocks import none_if_unset
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import (
    ApprovalFilters,
    ApprovalRequest,
    ApprovalResponse,
    McpCall,
    McpChoice,
    McpItem,
    McpListing,
    McpTool,
    ToolFilter,
)
from toolglot.errors import DecodeError
from toolglot.events import Close, Open
from toolglot.ir import Message, Opaque, Request, Text, Tool, ToolCall, ToolChoice, ToolResult, native_of, replace
from toolglot.tools.served import (
    AskedServer,
    ReportPiece,
    RestoredHistory,
    ServedCall,
    ServedForms,
    ServedRequest,
    ToolSelection,
)
from toolglot.tools.served_history import (
    HistoryCallIds,
    client_call_id,
    failed_result,
    interrupted_result,
    result_texts,
)
from toolglot.wire import json
from toolglot.wire.typed import ValueReader

JOINED = "and_"
"""Follows the prefix of an id if the call belongs to the round of the call before it."""
FOLLOWED = "with_"
"""Follows the prefix of an id if the round continues up to the end of the answer."""

_PREFIXES = tuple(f"{prefix}_{mark}" for prefix in ("mcp", "mcpr") for mark in (JOINED, FOLLOWED, ""))
_JOINED_PREFIXES = tuple(f"{prefix}_{JOINED}" for prefix in ("mcp", "mcpr"))
_TYPES = ("mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response")
_ITEMS = ValueReader[McpItem](McpItem)
# Statuses of a call that has neither output nor error yet.
_UNFINISHED = ("in_progress", "calling", "incomplete")

ToolNamer = Callable[[str, str], str]


class _ApprovalState:
    """The outcome of an approval request."""

    __slots__ = ("answer", "call", "is_last", "reason")

    def __init__(self) -> None:
        self.answer: bool | None = None
        self.reason: str | None = None
        self.is_last = False  # no message of the model follows the answer
        self.call: McpCall | None = None  # set once the call was run


def restore_served_calls(request: Request, name: ToolNamer) -> RestoredHistory:
    items = {
        index: _ITEMS.read_value(value, _item_path(request, index))
        for index, message in enumerate(request.messages)
        if (value := _served_item(message)) is not None
    }
    if not items:
        return RestoredHistory(request=request)
    history = ResponsesServedHistory(request, name, items, _find_approvals(request, items))
    for index, message in enumerate(request.messages):
        history.add(index, message)
    history.end_round()
    labels = (item.server_label for item in items.values() if isinstance(item, McpListing))
    return RestoredHistory(
        request=replace(request, messages=tuple(history.messages)),
        approved=tuple(history.approved),
        listed=tuple(dict.fromkeys(label for label in labels if isinstance(label, str))),
    )


def _served_item(message: Message) -> dict[str, Any] | None:
    """Return the item of a served call in this message; None for other messages."""
    if len(message.content) != 1:
        return None
    (block,) = message.content
    if not isinstance(block, Opaque) or block.dialect != NAME or not isinstance(block.value, dict):
        return None
    return block.value if block.value.get("type") in _TYPES else None


def _item_path(request: Request, index: int) -> str:
    """Return the path of this message's item in the request."""
    before = any(native_of(message, NAME).get("$from") == "instructions" for message in request.messages[:1])
    return f"$.input[{index - before}]"


def _find_approvals(request: Request, items: dict[int, McpItem]) -> dict[int, _ApprovalState]:
    """Return the outcome of each approval request, by the index of its item. If two have the same id, answers refer to
    the later one.
    """
    found: dict[int, _ApprovalState] = {}
    by_id: dict[str, _ApprovalState] = {}
    said = max((index for index, message in enumerate(request.messages) if message.role == "assistant"), default=-1)
    for index, item in items.items():
        if isinstance(item, ApprovalRequest):
            found[index] = by_id[item.id] = _ApprovalState()
        elif isinstance(item, ApprovalResponse):
            if (answered := by_id.get(item.approval_request_id)) is None:
                where = f"{_item_path(request, index)}.approval_request_id"
                raise DecodeError(where, f"there is no approval request {item.approval_request_id}")
            answered.answer, answered.reason, answered.is_last = item.approve, none_if_unset(item.reason), index > said
        elif isinstance(item, McpCall) and (known := by_id.get(item.approval_request_id or "")) is not None:
            known.call = item
    return found


class ResponsesServedHistory:
    """Rewrites the messages. A round is written when it has ended: its calls, then their results."""

    def __init__(
        self, request: Request, name: ToolNamer, items: dict[int, McpItem], approvals: dict[int, _ApprovalState]
    ) -> None:
        self._name = name
        self._items = items
        self._approvals = approvals
        self._ran = {id(each.call) for each in approvals.values() if each.call is not None}
        self._ids = HistoryCallIds(request, _PREFIXES)
        self._joined_later = self._find_joined_later(request)
        self._calls: list[ToolCall] = []
        self._results: list[ToolResult] = []
        self._open = False  # a call of the round still waits for its result, so the next call belongs to it too
        self.messages: list[Message] = []
        self.approved: list[ServedCall] = []

    def add(self, index: int, message: Message) -> None:
        item = self._items.get(index)
        if item is None:
            self._add_other(index, message)
        elif isinstance(item, ApprovalResponse):
            self.end_round()
        elif isinstance(item, ApprovalRequest):
            self._add_call_with_approval(item, self._approvals[index])
        elif isinstance(item, McpCall) and id(item) not in self._ran:
            call, _ = self._read_call(item)
            self._calls.append(call)
            self._results.append(_result(item, call))
            self._open = self._open or item.id.startswith(f"mcp_{FOLLOWED}")

    def _find_joined_later(self, request: Request) -> frozenset[int]:
        """Find the model's messages that are followed by a call of the same round as the call before them."""
        found: set[int] = set()
        joined = False
        for index in range(len(request.messages) - 1, -1, -1):
            item = self._items.get(index)
            if isinstance(item, McpCall | ApprovalRequest):
                joined = item.id.startswith(_JOINED_PREFIXES) if id(item) not in self._ran else joined
            elif item is None and request.messages[index].role == "assistant":
                found |= {index} if joined else set()
            elif not isinstance(item, McpListing):
                joined = False
        return frozenset(found)

    def _add_other(self, index: int, message: Message) -> None:
        if message.role == "assistant" and (self._open or index in self._joined_later):
            self._write_calls()
        else:
            self.end_round()
        self.messages.append(message)
        if message.role == "assistant" and any(isinstance(block, ToolCall) for block in message.content):
            self._open = True

    def _read_call(self, item: McpCall | ApprovalRequest) -> tuple[ToolCall, ServedCall]:
        """Return the call in an item. It begins a new round unless it belongs to the one before."""
        if not item.id.startswith(_JOINED_PREFIXES) and not self._open:
            self.end_round()
        arguments = item.arguments or ""
        call_id = self._ids.of(item.id)
        call = ToolCall(id=call_id, name=self._name(item.server_label, item.name), arguments=arguments)
        return call, ServedCall(id=call_id, server=item.server_label, name=item.name, arguments=arguments)

    def _add_call_with_approval(self, item: ApprovalRequest, state: _ApprovalState) -> None:
        if state.answer is None and state.call is None:
            # Not answered yet: the model does not wait for a result. The request ends its answer, so later items belong
            # to the same round.
            if not item.id.startswith(_JOINED_PREFIXES) and not self._open:
                self.end_round()
            self._open = True
            return
        call, served = self._read_call(item)
        self._calls.append(call)
        self._open = True
        if state.call is not None:
            self._results.append(_result(state.call, call))
        elif not state.answer:
            why = f": {state.reason}" if state.reason else "."
            self._results.append(failed_result(call, f"The user did not allow this tool call{why}"))
        elif state.is_last:
            self.approved.append(replace(served, approval=item.id))
        else:
            self._results.append(interrupted_result(call))

    def _write_calls(self) -> None:
        if self._calls:
            self.messages.append(Message(role="assistant", content=tuple(self._calls)))
            self._calls = []

    def end_round(self) -> None:
        self._write_calls()
        self.messages += [Message(role="tool", content=(result,)) for result in self._results]
        self._results, self._open = [], False


def _result(item: McpCall, call: ToolCall) -> ToolResult:
    output, error = none_if_unset(item.output), none_if_unset(item.error)
    if error is not None:
        return failed_result(call, _error_text(error))
    if output is None and item.status in _UNFINISHED:
        return interrupted_result(call)
    text = output if isinstance(output, str) else "" if output is None else json.encode_text(output)
    content = (Text(text=text),) if text else ()
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=False)


def _error_text(error: Any) -> str:
    """Return the text of an error: a string in older versions of the API, an object in newer ones."""
    if isinstance(error, str):
        return error
    fields = error if isinstance(error, dict) else {}
    content, message = fields.get("content"), fields.get("message")
    if isinstance(message, str):
        return message
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_content_text, content))
    return json.encode_text(error)


def _content_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else json.encode_text(part)


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
    """Read which calls need approval. By default, all calls do."""
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
    """Split a choice into the part without tools of MCP servers, and these tools."""
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
    """Reports one `mcp_call` item for each call, in order. Each stays open while its call runs."""

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
    """Return the item of a call that is about to run."""
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
    """Return the members that the end of a call adds: its output, or the error."""
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
