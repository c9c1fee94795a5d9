"""The last pass: messages grouped into the turns that the target's wire has.

Some wires want one message per turn and the results in a user message, others a message for each result. Blocks keep
their order, except that results come first in a user message, as Anthropic demands.
"""

from __future__ import annotations

from toolglot.ir import Block, Cache, Message, Request, Text, ToolResult, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, has_results, with_messages
from toolglot.passes.blocks import leading as count_leading

BEGIN = "(The conversation begins with the assistant.)"
CONTINUE = "Continue."


def group(request: Request, context: Context) -> Request:
    request = _without_emptiness(request, context)
    # A dialect's own grouping is legal, whatever it is.
    if context.source != context.target:
        messages = [part for message in request.messages for part in _split(message, context)]
        request = with_messages(request, tuple(_merged(messages, context)))
    return _with_edges(request, context)


def _without_emptiness(request: Request, context: Context) -> Request:
    """Without the empty text that the target refuses, spaces included, and without messages that have nothing else.

    A message that an earlier pass has emptied is told there.
    """
    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        kept = message if context.can.empty_text else _with_text(message)
        idle = context.source != context.target and (message.role == "assistant" or not context.can.empty_text)
        if kept.content or (not message.content and not idle):
            messages.append(kept)
        elif message.content:
            context.receipt.note(str(Place(number)), f"{message.role} message without content", "it says nothing")
    return with_messages(request, tuple(messages))


def _with_text(message: Message) -> Message:
    content = _non_empty(message.content)
    fitted = tuple(_result_with_text(block) if isinstance(block, ToolResult) else block for block in content)
    same = len(fitted) == len(message.content) and all(
        new is old for new, old in zip(fitted, message.content, strict=True)
    )
    return message if same else replace(message, content=fitted)


def _result_with_text(result: ToolResult) -> ToolResult:
    content = _non_empty(result.content)
    return result if len(content) == len(result.content) else replace(result, content=content)


def _non_empty(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks without empty text; a cache breakpoint on such text moves to the text or result before it."""
    kept: list[Block] = []
    for block in content:
        if not isinstance(block, Text) or block.text.strip():
            kept.append(block)
        elif block.cache is not None and kept:
            kept[-1] = _cached(kept[-1], block.cache)
    return tuple(kept) if len(kept) != len(content) else content


def _cached(block: Block, cache: Cache) -> Block:
    return replace(block, cache=cache) if isinstance(block, Text | ToolResult) and block.cache is None else block


def _split(message: Message, context: Context) -> tuple[Message, ...]:
    """A message for each result and one for the rest, or all in the user's turn."""
    if not has_results(message) or message.role == "assistant":
        return (replace(message, role="user"),) if message.role == "tool" and message.content else (message,)
    if context.can.results_role == "user":
        return (message if message.role == "user" else replace(message, role="user"),)
    results = [block for block in message.content if isinstance(block, ToolResult)]
    if message.role == "tool" and len(results) == len(message.content) == 1:
        return (message,)
    others = tuple(block for block in message.content if not isinstance(block, ToolResult))
    split = [Message(role="tool", content=(result,)) for result in results]
    return (*split, *([replace(message, role="user", content=others)] if others else []))


def _merged(messages: list[Message], context: Context) -> list[Message]:
    can = context.can
    merging = {"assistant"} if can.calls_in_one_message else set()
    if can.roles_alternate:
        merging |= {"assistant", "user"}
    turns: list[list[Message]] = []
    for message in messages:
        if turns and message.role in merging and turns[-1][0].role == message.role:
            turns[-1].append(message)
        else:
            turns.append([message])
    number = 0
    merged: list[Message] = []
    for turn in turns:
        merged.append(_turn(turn, number, context))
        number += len(turn)
    return merged


def _turn(turn: list[Message], number: int, context: Context) -> Message:
    first = turn[0]
    content = tuple(block for message in turn for block in message.content)
    if first.role == "user":
        results = tuple(block for block in content if isinstance(block, ToolResult))
        others = tuple(block for block in content if not isinstance(block, ToolResult))
        content = (*results, *others)
    if len(turn) == 1:
        same = all(new is old for new, old in zip(content, first.content, strict=True))
        return first if same else replace(first, content=content)
    own = [native_of(message, context.target) for message in turn]
    if any(fields != own[0] for fields in own):
        context.receipt.note(str(Place(number)), "fields of merged messages", "those of the first message stay")
    return replace(first, content=content)


def _with_edges(request: Request, context: Context) -> Request:
    messages = request.messages
    start = count_leading(request)
    speaker = messages[start].role if start < len(messages) else ""
    if context.can.starts_with_user and speaker == "assistant":
        where = str(Place(start))
        context.receipt.loss(where, "a start without the user", "the target wants one; a message was put in front")
        messages = (*messages[:start], Message(role="user", content=(Text(text=BEGIN),)), *messages[start:])
    if messages and messages[-1].role == "assistant" and not context.can.prefill:
        why = "the target cannot go on writing it; a user message asks it to"
        context.receipt.loss(str(Place(len(messages) - 1)), "an assistant message at the end", why)
        messages = (*messages, Message(role="user", content=(Text(text=CONTINUE),)))
    return with_messages(request, messages)
