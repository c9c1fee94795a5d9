"""The served calls of a conversation's history: items of MCP calls, and of the client's word on them, as the calls and
results that they are to the model.

A call that waited for the client's yes stands where it was made, which is where the model was told of it, and not where
it was run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.dialects.openai_responses.blocks import given
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import ApprovalRequest, ApprovalResponse, McpCall, McpItem, McpListing
from toolglot.errors import DecodeError
from toolglot.ir import Message, Opaque, Request, Text, ToolCall, ToolResult, native_of, replace
from toolglot.tools.served import RestoredHistory, ServedCall
from toolglot.tools.served_history import HistoryCallIds, failed_result, interrupted_result
from toolglot.wire import json
from toolglot.wire.typed import ValueReader

AND = "and_"
"""Stands behind the prefix of an id whose call belongs to the round of the call before it."""
WITH = "with_"
"""Stands behind the prefix of an id whose round goes on up to the end of the answer."""

_PREFIXES = tuple(f"{prefix}_{mark}" for prefix in ("mcp", "mcpr") for mark in (AND, WITH, ""))
_JOINED = tuple(f"{prefix}_{AND}" for prefix in ("mcp", "mcpr"))
_TYPES = ("mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response")
_ITEMS = ValueReader[McpItem](McpItem)
# How far a call had come that has neither output nor error.
_UNFINISHED = ("in_progress", "calling", "incomplete")

Named = Callable[[str, str], str]


class _Request:
    """What has become of a request for the client's yes."""

    __slots__ = ("answer", "call", "is_last", "reason")

    def __init__(self) -> None:
        self.answer: bool | None = None
        self.reason: str | None = None
        self.is_last = False  # the model has said nothing since the answer
        self.call: McpCall | None = None  # once it was run


def restored(request: Request, name: Named) -> RestoredHistory:
    items = {
        index: _ITEMS.read_value(value, _place(request, index))
        for index, message in enumerate(request.messages)
        if (value := _item(message)) is not None
    }
    if not items:
        return RestoredHistory(request=request)
    history = _History(request, name, items, _asked(request, items))
    for index, message in enumerate(request.messages):
        history.add(index, message)
    history.end_round()
    labels = (item.server_label for item in items.values() if isinstance(item, McpListing))
    return RestoredHistory(
        request=replace(request, messages=tuple(history.messages)),
        approved=tuple(history.approved),
        listed=tuple(dict.fromkeys(label for label in labels if isinstance(label, str))),
    )


def _item(message: Message) -> dict[str, Any] | None:
    """The item of a served call that this message is."""
    if len(message.content) != 1:
        return None
    (block,) = message.content
    if not isinstance(block, Opaque) or block.dialect != NAME or not isinstance(block.value, dict):
        return None
    return block.value if block.value.get("type") in _TYPES else None


def _place(request: Request, index: int) -> str:
    """The path of the item that this message was."""
    before = any(native_of(message, NAME).get("$from") == "instructions" for message in request.messages[:1])
    return f"$.input[{index - before}]"


def _asked(request: Request, items: dict[int, McpItem]) -> dict[int, _Request]:
    """What became of each request for a yes, by the place of its item. Of two of one id the later one is meant."""
    found: dict[int, _Request] = {}
    by_id: dict[str, _Request] = {}
    said = max((index for index, message in enumerate(request.messages) if message.role == "assistant"), default=-1)
    for index, item in items.items():
        if isinstance(item, ApprovalRequest):
            found[index] = by_id[item.id] = _Request()
        elif isinstance(item, ApprovalResponse):
            if (answered := by_id.get(item.approval_request_id)) is None:
                where = f"{_place(request, index)}.approval_request_id"
                raise DecodeError(where, f"there is no approval request {item.approval_request_id}")
            answered.answer, answered.reason, answered.is_last = item.approve, given(item.reason), index > said
        elif isinstance(item, McpCall) and (known := by_id.get(item.approval_request_id or "")) is not None:
            known.call = item
    return found


class _History:
    """The messages, written anew. A round is written when it has ended: its calls, then their results."""

    def __init__(self, request: Request, name: Named, items: dict[int, McpItem], asked: dict[int, _Request]) -> None:
        self._name = name
        self._items = items
        self._asked = asked
        self._ran = {id(each.call) for each in asked.values() if each.call is not None}
        self._ids = HistoryCallIds(request, _PREFIXES)
        self._joined_later = self._find_joined_later(request)
        self._calls: list[ToolCall] = []
        self._results: list[ToolResult] = []
        self._open = False  # the round has a call whose result comes later, so that the next call is of this round too
        self.messages: list[Message] = []
        self.approved: list[ServedCall] = []

    def add(self, index: int, message: Message) -> None:
        item = self._items.get(index)
        if item is None:
            self._other(index, message)
        elif isinstance(item, ApprovalResponse):
            self.end_round()
        elif isinstance(item, ApprovalRequest):
            self._waited(item, self._asked[index])
        elif isinstance(item, McpCall) and id(item) not in self._ran:
            call, _ = self._call(item)
            self._calls.append(call)
            self._results.append(_result(item, call))
            self._open = self._open or item.id.startswith(f"mcp_{WITH}")

    def _find_joined_later(self, request: Request) -> frozenset[int]:
        """The messages of the model behind which a call joins the round of the call before them."""
        found: set[int] = set()
        joined = False
        for index in range(len(request.messages) - 1, -1, -1):
            item = self._items.get(index)
            if isinstance(item, McpCall | ApprovalRequest):
                joined = item.id.startswith(_JOINED) if id(item) not in self._ran else joined
            elif item is None and request.messages[index].role == "assistant":
                found |= {index} if joined else set()
            elif not isinstance(item, McpListing):
                joined = False
        return frozenset(found)

    def _other(self, index: int, message: Message) -> None:
        if message.role == "assistant" and (self._open or index in self._joined_later):
            self._write_calls()
        else:
            self.end_round()
        self.messages.append(message)
        if message.role == "assistant" and any(isinstance(block, ToolCall) for block in message.content):
            self._open = True

    def _call(self, item: McpCall | ApprovalRequest) -> tuple[ToolCall, ServedCall]:
        """The call that an item tells of, which begins a round unless it belongs to the one before."""
        if not item.id.startswith(_JOINED) and not self._open:
            self.end_round()
        arguments = item.arguments or ""
        call_id = self._ids.of(item.id)
        call = ToolCall(id=call_id, name=self._name(item.server_label, item.name), arguments=arguments)
        return call, ServedCall(id=call_id, server=item.server_label, name=item.name, arguments=arguments)

    def _waited(self, item: ApprovalRequest, asked: _Request) -> None:
        if asked.answer is None and asked.call is None:
            # Nobody has answered, and the model waits for nothing. A question ends its answer, so that what stands
            # behind it is of the same round.
            if not item.id.startswith(_JOINED) and not self._open:
                self.end_round()
            self._open = True
            return
        call, served = self._call(item)
        self._calls.append(call)
        self._open = True
        if asked.call is not None:
            self._results.append(_result(asked.call, call))
        elif not asked.answer:
            why = f": {asked.reason}" if asked.reason else "."
            self._results.append(failed_result(call, f"The user did not allow this tool call{why}"))
        elif asked.is_last:
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
    output, error = given(item.output), given(item.error)
    if error is not None:
        return failed_result(call, _failure(error))
    if output is None and item.status in _UNFINISHED:
        return interrupted_result(call)
    text = output if isinstance(output, str) else "" if output is None else json.encode_text(output)
    content = (Text(text=text),) if text else ()
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=False)


def _failure(error: Any) -> str:
    """What went wrong: a text in older versions of the API, an object in newer ones."""
    if isinstance(error, str):
        return error
    fields = error if isinstance(error, dict) else {}
    content, message = fields.get("content"), fields.get("message")
    if isinstance(message, str):
        return message
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_said, content))
    return json.encode_text(error)


def _said(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else json.encode_text(part)
