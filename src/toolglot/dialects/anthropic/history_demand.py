"""Claude's demand on a history: with a thinking budget, a turn with tool calls must start with thinking."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.ir import Block, Message, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.reasoning import reasons


def disable_thinking_mid_turn(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Turn thinking off if the current turn has tool calls and does not start with thinking.

    Claude with a thinking budget refuses such a turn. Models without budgets have no such rule. See opencode #3077.
    """
    wanted = request.reasoning
    if (
        wanted is None
        or not reasons(request, context)
        or not (context.can.reasoning_off and context.can.reasoning_budget)
    ):
        return request
    if not _calls_without_thinking(request.messages):
        return request
    why = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    context.receipt.loss("reasoning", "thinking", why)
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _calls_without_thinking(messages: tuple[Message, ...]) -> bool:
    """Whether the current turn has tool calls and does not start with reasoning.

    Only the start of a turn counts: Claude often reasons in the first step of a tool loop and not in the later ones
    (Anthropic, "Extended thinking with tool use"). The current turn is every message after the last user text. Text
    next to tool results does not end a turn: it goes into the same message as the results.
    """
    started = thought = called = False
    received: list[Block] = []  # between two messages of the assistant
    for message in messages:
        if message.role != "assistant":
            if message.role in ("user", "tool"):
                received.extend(message.content)
            continue
        if _ends_turn(received):
            started = thought = called = False
        received = []
        for block in message.content:
            if not started and isinstance(block, (Text, Thinking, ToolCall)):
                started = not isinstance(block, Text) or bool(block.text.strip())
                thought = isinstance(block, Thinking)
            called = called or isinstance(block, ToolCall)
    return called and not thought and not _ends_turn(received)


def _ends_turn(received: list[Block]) -> bool:
    return bool(received) and not any(isinstance(block, ToolResult) for block in received)


DEMAND = HistoryDemand(apply=disable_thinking_mid_turn, triggers=lambda context: features.REASONING)
