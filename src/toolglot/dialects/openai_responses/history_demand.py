"""Requirements of the Responses API for a history: each reasoning item has the item that followed it, and only items
that the API created, with their reasoning, have ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar

from toolglot import features
from toolglot.dialect import HistoryDemand
from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Block, Message, Opaque, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.answer_state import UNFOLLOWED
from toolglot.passes.blocks import Place, rewrite_messages, with_messages
from toolglot.passes.tool_history import tool_history

# Ids that `ItemIds` derives for items of other models' answers. OpenAI's own end in one run of hex digits.
_DERIVED_ID = re.compile(r"(rs|msg|fc|ctc|ig)_.+_\d+", re.S)


def remove_item_ids(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Remove ids that were derived for answers of other models, and those of a turn whose reasoning is lost.

    The Responses API assumes that it created an item with an id, and requires the reasoning that led to it. It accepts
    items without ids: its own agents send none.
    """
    if context.source != context.target:
        _note_unreasoned_calls(request.messages, context)
        return _drop_unfollowed(request, context)  # only the target's own reasoning items have ids
    calls = tool_history(request, context).calls
    if not any("id" in native_of(node, NAME) for node in (*request.messages, *calls)):
        return request
    tied: list[_IdState] = []
    turn: list[Message] = []
    for message in (*request.messages, Message(role="end")):
        if message.role == "assistant":
            turn.append(message)
            continue
        tied += _id_states(turn, reasons="reasoning" in context.can.parameters.fields)
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
        context.receipt.note(str(Place(number)), "item id", "the target did not create it, or its reasoning was lost")
        return freed if same else replace(freed, content=content)

    return rewrite_messages(request, free)


def _drop_unfollowed(request: Request, context: Context) -> Request:
    """Drop reasoning that no item follows. The API refuses it, even if it has created several in a row itself
    (openai/codex #1235).
    """
    if not context.features & features.THINKING:
        return request
    follows = False  # an item follows in the same answer

    def rewrite(message: Message, number: int) -> Message:
        nonlocal follows
        if message.role != "assistant":
            follows = False
            return message
        kept: list[Block] = []
        for block in reversed(message.content):
            if not isinstance(block, Thinking):
                follows = follows or _is_item(block)
            elif follows:
                follows = False
            else:
                context.receipt.loss(str(Place(number)), "reasoning", UNFOLLOWED)
                continue
            kept.append(block)
        return message if len(kept) == len(message.content) else replace(message, content=tuple(reversed(kept)))

    numbered = reversed([*enumerate(request.messages)])
    messages = tuple(rewrite(message, number) for number, message in numbered)[::-1]
    return with_messages(request, messages)


def _is_item(block: Block) -> bool:
    """Return whether the block is sent as an item. Later passes omit empty text and opaque blocks of other dialects."""
    if isinstance(block, Text):
        return bool(block.text.strip())
    return not isinstance(block, Opaque) or block.dialect == NAME


def _note_unreasoned_calls(messages: Sequence[Message], context: Context) -> None:
    """Note calls without the reasoning that led to them. The API accepts them, and its answers do not show that it is
    missing."""
    if "reasoning" not in context.can.parameters.fields:
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


_IdState: TypeAlias = Literal["lost", "known", "own"]
"""State of an item: its reasoning is lost, its id can be sent, the target's reasoning precedes it."""


def _id_states(turn: list[Message], *, reasons: bool) -> list[_IdState]:
    blocks = [block for message in turn for block in message.content]
    if reasons and any(map(_is_call, blocks)) and not any(isinstance(block, Thinking) for block in blocks):
        return ["lost"] * len(turn)
    ties: list[_IdState] = []
    own = False
    for message in turn:
        own = own or any(map(_is_target_reasoning, message.content))
        ties.append("own" if own else "known")
    return ties


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall)


def _is_target_reasoning(block: Block) -> bool:
    """Return whether the target created this reasoning item. An id alone may be derived. Encrypted content is always
    the target's, because that of other models is already removed."""
    fields = native_of(block, NAME) if isinstance(block, Thinking) else {}
    item = fields.get("id")
    return isinstance(item, str) and (bool(fields.get("encrypted_content")) or not _DERIVED_ID.fullmatch(item))


N = TypeVar("N", Message, ToolCall)


def _without_id(node: N, *, tie: _IdState) -> N:
    """Remove the id of an item. Imitators of the API may have ids that look derived; those after the target's reasoning
    stay."""
    fields = native_of(node, NAME)
    item = fields.get("id")
    if not isinstance(item, str) or tie == "own" or (tie == "known" and not _DERIVED_ID.fullmatch(item)):
        return node
    rest = {key: value for key, value in fields.items() if key != "id"}
    return replace(node, native={**node.native, NAME: rest})


def _triggers(context: Context) -> int:
    return features.ANY if context.source == context.target else features.CALLS | features.THINKING


DEMAND = HistoryDemand(apply=remove_item_ids, triggers=_triggers)
