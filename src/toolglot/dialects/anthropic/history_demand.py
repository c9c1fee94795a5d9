"""Claude's demands on a history: no assistant message ends with thinking, and with a thinking budget, a turn with tool
calls must start with thinking."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.dialects.anthropic.native import NAME
from toolglot.ir import Block, Message, Opaque, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, with_messages
from toolglot.passes.reasoning import reasons

LAST = "the block that followed it was not sent back, and no assistant message may end with it"


def fit_thinking(request: Request, context: Context, before: Sequence[Message]) -> Request:
    return disable_thinking_mid_turn(drop_last_thinking(request, context), context)


def drop_last_thinking(request: Request, context: Context) -> Request:
    """Drop thinking at the end of an answer: "The final block in an assistant message cannot be `thinking`." Histories
    of Claude's own clients stay unchanged.
    """
    if context.source == context.target or not context.features & features.THINKING:
        return request
    messages = list(request.messages)
    is_last = True  # no block of the same answer follows
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if message.role in INSTRUCTION_ROLES:
            continue
        if message.role != "assistant":
            is_last = True
            continue
        if not is_last or not message.content:
            continue
        kept = len(message.content)
        while kept and _says_nothing(message.content[kept - 1]):
            kept -= 1
        thinking = [block for block in message.content[kept:] if isinstance(block, Thinking)]
        is_last = not kept
        if thinking:
            rest = tuple(block for block in message.content[kept:] if not isinstance(block, Thinking))
            messages[number] = replace(message, content=message.content[:kept] + rest)
            context.receipt.loss(str(Place(number)), "reasoning", LAST)
    return with_messages(request, tuple(messages))


def _says_nothing(block: Block) -> bool:
    """Return whether the block is thinking or is not sent at all. Later passes omit empty text and opaque blocks of
    other dialects."""
    if isinstance(block, Text):
        return not block.text.strip()
    return isinstance(block, Thinking) or (isinstance(block, Opaque) and block.dialect != NAME)


def disable_thinking_mid_turn(request: Request, context: Context) -> Request:
    """Turn thinking off if the current turn has tool calls and does not start with thinking.

    Claude with a thinking budget refuses such a turn. Models without budgets have no such rule. See opencode #3077.
    """
    wanted = request.reasoning
    if (
        wanted is None
        or not reasons(request, context)
        or not (context.can.reasoning.can_disable and context.can.reasoning.budget)
    ):
        return request
    if not _calls_without_thinking(request.messages):
        return request
    why = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    context.receipt.loss("reasoning", "thinking", why)
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _calls_without_thinking(messages: tuple[Message, ...]) -> bool:
    """Return whether the current turn has tool calls and does not start with reasoning.

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


DEMAND = HistoryDemand(apply=fit_thinking, triggers=lambda context: features.REASONING | features.THINKING)
