"""What Claude demands of a history: a turn with a thinking budget thinks before each of its calls."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.ir import Block, Message, Request, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.reasoning import reasons


def think_or_not(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Claude with a thinking budget refuses a turn that went on with a tool call before which it did not think.

    Models that know no budgets think when they want to, and have no such rule. See opencode #3077.
    """
    wanted = request.reasoning
    if (
        wanted is None
        or not reasons(request, context)
        or not (context.can.reasoning_off and context.can.reasoning_budget)
    ):
        return request
    # A client of Claude's own has kept what it was given: its turn begins with reasoning and may go on without,
    # unless another model has answered in between, of which it tells nothing if that one has shown no reasoning.
    own = context.source == context.target and not context.carried
    if not _calls_without_thinking(request.messages, whole_turn=own):
        return request
    why = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    context.receipt.loss("reasoning", "thinking", why)
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _calls_without_thinking(messages: tuple[Message, ...], *, whole_turn: bool) -> bool:
    """Has a step of the current turn, the messages after the user last spoke, a call before any reasoning? With
    `whole_turn` reasoning in one step is enough for the later ones.

    Text beside or behind results does not end a turn: it will stand in one message with them.
    """
    missing = thought = False
    heard: list[Block] = []  # between two messages of the assistant
    for message in messages:
        if message.role != "assistant":
            thought = thought and whole_turn
            if message.role in ("user", "tool"):
                heard.extend(message.content)
            continue
        over = _ends_turn(heard)
        missing, thought, heard = missing and not over, thought and not over, []
        for block in message.content:
            thought = thought or isinstance(block, Thinking)
            missing = missing or (isinstance(block, ToolCall) and not thought)
    return missing and not _ends_turn(heard)


def _ends_turn(heard: list[Block]) -> bool:
    return bool(heard) and not any(isinstance(block, ToolResult) for block in heard)


DEMAND = HistoryDemand(apply=think_or_not, triggers=lambda context: features.REASONING)
