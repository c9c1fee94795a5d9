"""No more history than an upstream is to get: the latest messages, the latest results of tools.

What is cut is cut whole: a call goes with its result. The system text stays, and so does what the user said last with
the results that have just come; where a turn is longer than the limit by itself, its oldest steps go.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.ir import Block, Message, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context, RequestPass
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, has_results, with_messages


def limit(max_history_messages: int | None = None, max_tool_results: int | None = None) -> RequestPass:
    """The pass that keeps a request within these limits. It belongs behind `history.repair`, which completes pairs."""

    def fit(request: Request, context: Context) -> Request:
        if max_tool_results is not None:
            request = _fewer_results(request, max(max_tool_results, 0), context)
        if max_history_messages is not None:
            request = _fewer_messages(request, max(max_history_messages, 1), context)
        return request

    return fit


# Messages


def _fewer_messages(request: Request, most: int, context: Context) -> Request:
    numbers = [number for number, message in enumerate(request.messages) if message.role not in INSTRUCTION_ROLES]
    said = [request.messages[number] for number in numbers]
    if len(said) <= most:
        return request
    kept = _kept(said, most)
    cut = [number for place, number in enumerate(numbers) if place not in kept]
    why = f"the upstream gets the last {most} messages of a history"
    for start, end in _runs(cut):
        where = str(Place(start)) if start == end else f"messages[{start}..{end}]"
        context.receipt.loss(where, f"{end - start + 1} messages", why)
    gone = set(cut)
    messages = tuple(message for number, message in enumerate(request.messages) if number not in gone)
    return with_messages(request, messages)


def _kept(said: Sequence[Message], most: int) -> set[int]:
    """The numbers of the messages that stay."""
    asked = _last_question(said)
    start = len(said) - most
    # A conversation may be cut before any question of the user's: no pair reaches over one.
    for number in range(start, asked + 1):
        if _is_question(said[number]):
            return set(range(number, len(said)))
    steps = [number for number in range(asked + 1, len(said)) if _begins_step(said, number)]
    later = next((number for number in steps if number > start), steps[-1] if steps else len(said))
    return {asked, *range(later, len(said))} if steps else set(range(asked, len(said)))


def _last_question(said: Sequence[Message]) -> int:
    return next((number for number in range(len(said) - 1, -1, -1) if _is_question(said[number])), 0)


def _is_question(message: Message) -> bool:
    return message.role == "user" and not has_results(message)


def _begins_step(said: Sequence[Message], number: int) -> bool:
    """Does the assistant begin to speak here? What it calls is answered behind it."""
    return said[number].role == "assistant" and (number == 0 or said[number - 1].role != "assistant")


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers in a row, each run as its first and last."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


# Results


def _fewer_results(request: Request, most: int, context: Context) -> Request:
    results = [
        (number, block.call_id)
        for number, message in enumerate(request.messages)
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    fresh = _fresh(request.messages)
    old = [call_id for number, call_id in results if number < fresh]
    count = min(len(results) - most, len(old))
    if count <= 0:
        return request
    cut = set(old[:count]) - {call_id for _, call_id in results[count:]}
    why = f"the upstream gets the last {most} results; their calls go with the others"
    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        content = tuple(block for block in message.content if not _belongs(block, cut))
        for index, block in enumerate(message.content):
            if isinstance(block, ToolResult) and block.call_id in cut:
                context.receipt.loss(str(Place(number, index)), f"result of call {block.call_id}", why)
        if len(content) == len(message.content):
            messages.append(message)
        elif any(_says_something(block) for block in content):
            messages.append(replace(message, content=content))
    return with_messages(request, tuple(messages))


def _fresh(messages: Sequence[Message]) -> int:
    """Where the results begin that the model has not seen: behind what it said last."""
    spoken = (number for number in range(len(messages), 0, -1) if messages[number - 1].role == "assistant")
    return next(spoken, 0)


def _belongs(block: Block, cut: set[str]) -> bool:
    if isinstance(block, ToolCall):
        return block.id in cut
    return isinstance(block, ToolResult) and block.call_id in cut


def _says_something(block: Block) -> bool:
    """Reasoning alone is no message: what it led to is gone."""
    return not isinstance(block, Thinking) and not (isinstance(block, Text) and not block.text)
