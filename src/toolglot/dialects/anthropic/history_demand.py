"""Claude's demand on a history: with a thinking budget, a turn must have thinking before its tool calls."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.ir import Block, Message, Request, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.reasoning import reasons


def disable_thinking_mid_turn(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Turn thinking off if the current turn has a tool call without thinking before it.

    Claude with a thinking budget refuses such a turn. Models without budgets have no such rule. See opencode #3077.
    """
    wanted = request.reasoning
    if (
        wanted is None
        or not reasons(request, context)
        or not (context.can.reasoning_off and context.can.reasoning_budget)
    ):
        return request
    # A client of this API sends all reasoning back: its turn begins with reasoning and may continue without it. This
    # does not hold if another model has answered in between (`carried`). Another model's answer without reasoning
    # carries no state, so it is not detected.
    own = context.source == context.target and not context.carried
    if not _calls_without_thinking(request.messages, whole_turn=own):
        return request
    why = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    context.receipt.loss("reasoning", "thinking", why)
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _calls_without_thinking(messages: tuple[Message, ...], *, whole_turn: bool) -> bool:
    """Does a step of the current turn have a call before any reasoning? With `whole_turn`, reasoning in one step counts
    for the later steps too.

    The current turn is every message after the last user text. Text next to tool results does not end a turn: it goes
    into the same message as the results.
    """
    missing = thought = False
    received: list[Block] = []  # between two messages of the assistant
    for message in messages:
        if message.role != "assistant":
            thought = thought and whole_turn
            if message.role in ("user", "tool"):
                received.extend(message.content)
            continue
        over = _ends_turn(received)
        missing, thought, received = missing and not over, thought and not over, []
        for block in message.content:
            thought = thought or isinstance(block, Thinking)
            missing = missing or (isinstance(block, ToolCall) and not thought)
    return missing and not _ends_turn(received)


def _ends_turn(received: list[Block]) -> bool:
    return bool(received) and not any(isinstance(block, ToolResult) for block in received)


DEMAND = HistoryDemand(apply=disable_thinking_mid_turn, triggers=lambda context: features.REASONING)
