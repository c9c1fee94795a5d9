"""The calls and results of a conversation, found in one walk. `features.survey` collects them; the passes that pair,
rename and shorten use only them. After a pass has moved messages, they are collected again on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from toolglot.ir import Block, Message, Request, ToolCall, ToolResult, replace

if TYPE_CHECKING:
    from toolglot.passes import Context


_id_of_call = attrgetter("id")
_id_of_result = attrgetter("call_id")


def _may_answer(result: ToolResult, call: ToolCall) -> bool:
    return result.name is None or result.name == call.name


class ToolHistory:
    """The calls and results of messages, in order, and their places: message and block. `is_flat`: no result contains a
    call or a result."""

    __slots__ = (
        "call_places",
        "calls",
        "has_own_ids",
        "is_flat",
        "is_without_ids",
        "messages",
        "places",
        "results",
        "used_ids",
    )

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.messages = messages
        self.calls: list[ToolCall] = []
        self.call_places: list[tuple[int, int]] = []
        self.results: list[ToolResult] = []
        self.places: list[tuple[int, int]] = []
        self.is_flat = True
        self.used_ids: set[str] = set()
        """The ids of calls and results."""
        self.has_own_ids = True
        """Whether every call has a unique id and every result names its call."""
        self.is_without_ids = False
        """Whether there are calls without any ids, and each result is in the place of its call, under no other name."""

    def find_ids(self, *, is_paired: bool = False) -> set[str]:
        """Find `used_ids` when the history is complete. `is_paired`: every result has the id of a call."""
        ids = set(map(_id_of_call, self.calls))
        used = ids if is_paired else ids.union(map(_id_of_result, self.results))
        lacks_id = "" in used
        self.has_own_ids = self.is_flat and len(ids) == len(self.calls) and not lacks_id
        if lacks_id:
            used.discard("")
        self.used_ids = used
        return used

    def pair_without_ids(self) -> bool:
        """Find `is_without_ids` when the history is complete and there are as many results as calls, in order."""
        self.is_without_ids = self.is_flat and not self.used_ids and all(map(_may_answer, self.results, self.calls))
        return self.is_without_ids

    @property
    def has_custom(self) -> bool:
        """Whether a call or a result belongs to a custom tool."""
        return any(call.kind == "custom" for call in self.calls) or any(
            result.kind == "custom" for result in self.results
        )

    def add_call(self, call: ToolCall, number: int, index: int) -> None:
        self.calls.append(call)
        self.call_places.append((number, index))

    def add_result(self, result: ToolResult, number: int, index: int) -> None:
        self.results.append(result)
        self.places.append((number, index))


def collect(messages: tuple[Message, ...]) -> ToolHistory:
    history = ToolHistory(messages)
    for number, message in enumerate(messages):
        for index, block in enumerate(message.content):
            if type(block) is ToolCall:
                history.add_call(block, number, index)
            elif type(block) is ToolResult:
                history.add_result(block, number, index)
                for part in block.content:
                    if type(part) is ToolCall or type(part) is ToolResult:
                        history.is_flat = False
    history.find_ids()
    return history


def tool_history(request: Request, context: Context) -> ToolHistory:
    """Return the calls and results of the current messages."""
    known = context.tool_history
    if known is None or known.messages is not request.messages:
        known = context.tool_history = collect(request.messages)
    return known


def with_results(request: Request, history: ToolHistory, results: list[ToolResult]) -> Request:
    """Replace the results of the request, in order. The new ones have the same ids."""
    messages = [*request.messages]
    contents: dict[int, list[Block]] = {}  # of messages with several blocks
    is_same = True
    for (number, index), before, result in zip(history.places, history.results, results, strict=True):
        if result is before:
            continue
        is_same = False
        message = messages[number]
        if len(message.content) == 1:
            messages[number] = replace(message, content=(result,))
        elif number in contents:
            contents[number][index] = result
        else:
            contents[number] = [*message.content]
            contents[number][index] = result
    if is_same:
        return request
    for number, content in contents.items():
        messages[number] = replace(messages[number], content=tuple(content))
    history.messages, history.results = tuple(messages), results
    return replace(request, messages=history.messages)


def with_ids(request: Request, history: ToolHistory, new_id: Callable[[int, int, ToolCall], str]) -> Request:
    """Return the request with ids for the calls and results of a history without ids, and with the names and kinds of
    calls on their results. `new_id` makes the id of a call: the number of its assistant message, its number in that,
    and it."""
    messages: list[Message] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    turn = 0
    for message in request.messages:
        content: list[Block] = [*message.content]
        turn += message.role == "assistant"
        first, answered = len(calls), len(results)
        for index, block in enumerate(content):
            if type(block) is ToolCall:
                content[index] = call = replace(block, id=new_id(turn, len(calls) - first, block))
                calls.append(call)
            elif type(block) is ToolResult:
                call = calls[len(results)]
                content[index] = result = replace(block, call_id=call.id, name=call.name, kind=call.kind)
                results.append(result)
        is_same = first == len(calls) and answered == len(results)
        messages.append(message if is_same else replace(message, content=tuple(content)))
    history.messages, history.calls, history.results = tuple(messages), calls, results
    history.is_without_ids = False
    history.find_ids(is_paired=True)
    return replace(request, messages=history.messages)
