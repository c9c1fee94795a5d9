"""Reasoning in the history: each model's state goes back to its owner alone.

Signatures and encrypted reasoning are bound to the model that made them; another one refuses them or cannot read them.
Readable reasoning text goes to targets that take any (`reasoning_content` of DeepSeek, Kimi, vLLM).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolglot.ir import Block, Message, Request, Thinking, ToolCall, ToolResult, native_of, replace, with_native
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_messages

GEMINI = "gemini"
ANTHROPIC = "anthropic"
UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for calls that another model made."""

STATE = frozenset({"signature", "thoughtSignature", "encrypted_content"})
"""Native keys that hold a model's own reasoning state."""

# Gemini 3 was the first to demand signatures; a name that tells no generation counts as new.
_UNSIGNED_MODELS = re.compile(r"(^|/)(gemini-[12]([.-]|$)|gemma)")


def settle(request: Request, context: Context) -> Request:
    """Foreign reasoning kept as text or left behind, and what the target demands of a history without its own."""
    request = rewrite_messages(request, lambda message, number: _settle_message(message, number, context))
    demand = DEMANDS.get(context.target)
    # A client that speaks the target's dialect has kept what it was given, unless others have answered in between.
    needed = context.source != context.target or context.carried
    return demand(request, context) if demand and needed else request


def _settle_message(message: Message, number: int, context: Context) -> Message:
    content: list[Block] = []
    left = emptied = state = False
    for block in message.content:
        if not isinstance(block, Thinking) or _is_own(block, context):
            state = state or _holds_state(block, context.target)
            content.append(block)
        elif context.can.thinking != "text":
            left = True
        elif block.text:
            state = state or _holds_state(block, context.target)
            content.append(block)
        else:
            emptied = True
    where = str(Place(number))
    if left:
        context.receipt.loss(where, "reasoning", "reasoning of another model cannot be given back")
    if emptied:
        context.receipt.loss(where, "encrypted reasoning", "only the model that made it can read it")
    if state:
        context.receipt.note(where, "reasoning state", "signatures go back to the model that made them alone")
    return message if not left and not emptied else replace(message, content=tuple(content))


def _is_own(block: Thinking, context: Context) -> bool:
    """Has the target made it, and takes it back? Imitators of an API make reasoning without its signature."""
    if context.aliased and context.can.thinking == "none":
        return False
    return bool(native_of(block, context.target)) or (context.source == context.target and not block.native)


def _holds_state(block: Block, target: str) -> bool:
    return any(owner != target and _is_state(fields) for owner, fields in block.native.items())


def _is_state(fields: Mapping[str, Any]) -> bool:
    """Is there state of a model? The mark for calls of other models stands in its place and is none."""
    return any(key in fields and fields[key] != UNSIGNED for key in STATE)


def reasons(request: Request, context: Context) -> bool:
    """Will the model reason? From another dialect an effort or a budget alone says so."""
    wanted = request.reasoning
    if wanted is None or wanted.mode == "off" or wanted.effort == "none":
        return False
    said = wanted.effort is not None or wanted.budget_tokens is not None
    return wanted.mode is not None or (said and context.source != context.target)


def _sign_steps(request: Request, context: Context) -> Request:
    """Gemini 3 refuses a step whose first call has no signature; its siblings in a parallel batch carry none.

    Only the current turn is validated, but the mark stands on every step: taking it away again when a turn ends would
    change the prefix that the prompt cache holds.
    """
    if _UNSIGNED_MODELS.search(request.model):
        return request
    signed = False

    def sign(message: Message, number: int) -> Message:
        nonlocal signed
        if message.role != "assistant":
            signed = False
            return message
        for index, block in enumerate(message.content):
            if signed or not isinstance(block, ToolCall):
                continue
            signed = True
            if "thoughtSignature" not in native_of(block, GEMINI):
                context.receipt.note(
                    str(Place(number, index)), "no thought signature", "marked as another model's call"
                )
                marked = with_native(block, GEMINI, thoughtSignature=UNSIGNED)
                return replace(message, content=(*message.content[:index], marked, *message.content[index + 1 :]))
        return message

    return rewrite_messages(request, sign)


def _think_or_not(request: Request, context: Context) -> Request:
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
    if not _calls_without_thinking(request.messages):
        return request
    why = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    context.receipt.loss("reasoning", "thinking", why)
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _calls_without_thinking(messages: tuple[Message, ...]) -> bool:
    """Has a step of the current turn, the messages after the user last spoke, a call before any reasoning?

    Text beside or behind results does not end a turn: it will stand in one message with them.
    """
    missing = thought = False
    heard: list[Block] = []  # between two messages of the assistant
    for message in messages:
        if message.role != "assistant":
            thought = False
            if message.role in ("user", "tool"):
                heard.extend(message.content)
            continue
        missing = missing and not _ends_turn(heard)
        heard = []
        for block in message.content:
            thought = thought or isinstance(block, Thinking)
            missing = missing or (isinstance(block, ToolCall) and not thought)
    return missing and not _ends_turn(heard)


def _ends_turn(heard: list[Block]) -> bool:
    return bool(heard) and not any(isinstance(block, ToolResult) for block in heard)


DEMANDS: dict[str, Callable[[Request, Context], Request]] = {GEMINI: _sign_steps, ANTHROPIC: _think_or_not}
"""What a target demands of a history whose reasoning is not its own."""
