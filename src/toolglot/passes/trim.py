"""Shortening a conversation to what an upstream is to be sent of it, for those that the configuration says so of.

A call and its results go together or not at all. System text stays, and so do the user's last words and all that
follows the assistant's last turn: that is what is asked now. Whatever goes is a loss that the receipt tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from toolglot.ir import Message, Request, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context, RequestPass, history

_SYSTEM = ("system", "developer")


def trim(max_messages: int, max_results: int) -> RequestPass:
    """The pass that leaves at most so many messages and results of tools; 0 is no limit."""

    def fit(request: Request, context: Context) -> Request:
        if max_results:
            request = _fewer_results(request, max_results, context)
        if max_messages:
            request = _fewer_messages(request, max_messages, context)
        return request

    return fit


def with_trimming(passes: Sequence[RequestPass], max_messages: int, max_results: int) -> tuple[RequestPass, ...]:
    """The passes with this one among them: right behind the repair of the history, which finds pairs."""
    if not max_messages and not max_results:
        return tuple(passes)
    place = passes.index(history.repair) + 1
    return (*passes[:place], trim(max_messages, max_results), *passes[place:])


# Results


def _fewer_results(request: Request, limit: int, context: Context) -> Request:
    messages = request.messages
    asked_now = _last_turn(messages)
    found = [
        (number, block.call_id)
        for number, message in enumerate(messages)
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    called = {block.id for message in messages for block in message.content if isinstance(block, ToolCall)}
    spare = len(found) - limit
    gone: set[str] = set()
    kept_now = {call_id for number, call_id in found if number >= asked_now}
    for _, call_id in found:
        if len(gone) < spare and call_id in called and call_id not in kept_now:
            gone.add(call_id)
    return replace(request, messages=_without_calls(messages, gone, limit, context)) if gone else request


def _without_calls(messages: Sequence[Message], gone: set[str], limit: int, context: Context) -> tuple[Message, ...]:
    left: list[Message] = []
    for number, message in enumerate(messages):
        content = tuple(
            block
            for block in message.content
            if not (isinstance(block, ToolCall) and block.id in gone)
            and not (isinstance(block, ToolResult) and block.call_id in gone)
        )
        if len(content) == len(message.content):
            left.append(message)
            continue
        for index, block in enumerate(message.content):
            if isinstance(block, ToolCall) and block.id in gone:
                what = f"call of {block.name} and its result"
                context.receipt.loss(f"messages[{number}].content[{index}]", what, _limited(limit, "results of tools"))
        # Reasoning led to the calls; a turn of nothing else is none.
        if any(not isinstance(block, Thinking) for block in content):
            left.append(replace(message, content=content))
    return tuple(left)


# Messages


def _fewer_messages(request: Request, limit: int, context: Context) -> Request:
    messages = request.messages
    spare = sum(message.role not in _SYSTEM for message in messages) - limit
    if spare <= 0:
        return request
    stays = _staying(messages)
    gone: set[int] = set()
    for unit in _units(messages):
        if len(gone) >= spare:
            break
        if stays.isdisjoint(unit):
            gone.update(unit)
    for number in sorted(gone):
        what = f"message of the {messages[number].role}"
        context.receipt.loss(f"messages[{number}]", what, _limited(limit, "messages"))
    return replace(request, messages=tuple(m for n, m in enumerate(messages) if n not in gone)) if gone else request


def _limited(limit: int, what: str) -> str:
    return f"this upstream is sent at most {limit} {what}"


def _last_turn(messages: Sequence[Message]) -> int:
    """Where that begins which follows the assistant's last message."""
    return next((n for n in range(len(messages), 0, -1) if messages[n - 1].role == "assistant"), 0)


def _staying(messages: Sequence[Message]) -> set[int]:
    """The messages that are never left out."""
    stays = {number for number, message in enumerate(messages) if message.role in _SYSTEM}
    stays.update(range(_last_turn(messages), len(messages)))
    spoken = (n for n in range(len(messages) - 1, -1, -1) if messages[n].role == "user" and _speaks(messages[n]))
    stays.update(number for number in (next(spoken, None),) if number is not None)
    if messages:
        stays.add(len(messages) - 1)
    return stays


def _speaks(message: Message) -> bool:
    return any(not isinstance(block, ToolResult) for block in message.content)


def _units(messages: Sequence[Message]) -> Iterable[list[int]]:
    """Messages that stay or go together because calls of one have their results in another; the oldest first."""
    leader = list(range(len(messages)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    owners: dict[str, int] = {}
    for number, message in enumerate(messages):
        for block in message.content:
            if isinstance(block, ToolCall | ToolResult):
                call_id = block.id if isinstance(block, ToolCall) else block.call_id
                first = owners.setdefault(call_id, number)
                low, high = sorted((find(first), find(number)))
                leader[high] = low
    units: dict[int, list[int]] = defaultdict(list)
    for number in range(len(messages)):
        units[find(number)].append(number)
    return units.values()
