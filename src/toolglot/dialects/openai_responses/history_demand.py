"""What the Responses API demands of a history: no ids on items that it has not made, or whose reasoning is lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Block, Message, Request, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_messages
from toolglot.passes.tool_history import tool_history

# The ids that this dialect gives to items of other models' answers; OpenAI's own end in one run of hex digits.
_MADE_UP = re.compile(r"(rs|msg|fc|ctc|ig)_.+_\d+", re.S)


def free_items(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """The Responses API takes an item with an id for one that it has made, and wants the reasoning that led to it.

    So ids that were made up for answers of other models go, and those of a turn whose reasoning is lost. Its server
    takes items without ids: its own agents send none.
    """
    if context.source != context.target:
        _note_unreasoned_calls(request.messages, context)
        return request  # no ids but those of its own reasoning
    calls = tool_history(request, context).calls
    if not any("id" in native_of(node, NAME) for node in (*request.messages, *calls)):
        return request
    tied: list[_Tie] = []
    turn: list[Message] = []
    for message in (*request.messages, Message(role="end")):
        if message.role == "assistant":
            turn.append(message)
            continue
        tied += _ties(turn, reasons="reasoning" in context.can.fields)
        tied.append("known")
        turn = []

    def free(message: Message, number: int) -> Message:
        if message.role != "assistant":
            return message
        content = tuple(
            _without_id(block, tie=tied[number]) if isinstance(block, ToolCall) else block for block in message.content
        )
        freed = _without_id(message, tie=tied[number])
        same = all(new is old for new, old in zip(content, message.content, strict=True))
        if freed is message and same:
            return message
        context.receipt.note(str(Place(number)), "item id", "the target has not made it, or has lost its reasoning")
        return freed if same else replace(freed, content=content)

    return rewrite_messages(request, free)


def _note_unreasoned_calls(messages: Sequence[Message], context: Context) -> None:
    """The API takes calls without the reasoning that led to them, and its answers do not show that it is missing."""
    if "reasoning" not in context.can.fields:
        return
    called = thought = False
    for message in (*messages, Message(role="end")):
        if message.role == "assistant":
            kinds = [type(block) for block in message.content]
            called = called or ToolCall in kinds
            thought = thought or Thinking in kinds
        elif called and not thought:
            context.receipt.note("reasoning", "of calls", "no reasoning of the target is known for some of them")
            return
        else:
            called = thought = False


_Tie: TypeAlias = Literal["lost", "known", "own"]
"""Of an item: its reasoning is lost; nothing is against it; the target's reasoning stands before it."""


def _ties(turn: list[Message], *, reasons: bool) -> list[_Tie]:
    blocks = [block for message in turn for block in message.content]
    if reasons and any(map(_is_call, blocks)) and not any(isinstance(block, Thinking) for block in blocks):
        return ["lost"] * len(turn)
    ties: list[_Tie] = []
    own = False
    for message in turn:
        own = own or any(map(_is_targets, message.content))
        ties.append("own" if own else "known")
    return ties


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall)


def _is_targets(block: Block) -> bool:
    """Is it a reasoning item that the target has made? An id alone may have been made up; with encrypted content it is
    the target's, as what stood there for other models has been taken out."""
    fields = native_of(block, NAME) if isinstance(block, Thinking) else {}
    item = fields.get("id")
    return isinstance(item, str) and (bool(fields.get("encrypted_content")) or not _MADE_UP.fullmatch(item))


N = TypeVar("N", Message, ToolCall)


def _without_id(node: N, *, tie: _Tie) -> N:
    """Imitators of the API may have ids of their own that look made up: those behind their reasoning stay."""
    fields = native_of(node, NAME)
    item = fields.get("id")
    if not isinstance(item, str) or tie == "own" or (tie == "known" and not _MADE_UP.fullmatch(item)):
        return node
    rest = {key: value for key, value in fields.items() if key != "id"}
    return replace(node, native={**node.native, NAME: rest})


def _triggers(context: Context) -> int:
    return features.ANY if context.source == context.target else features.CALLS


DEMAND = HistoryDemand(apply=free_items, triggers=_triggers)
