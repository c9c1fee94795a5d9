"""Trim a conversation to the limits that are configured for an upstream.

Content that belongs together is dropped together. System text stays, and so do the user's last text and everything
after the assistant's last turn: that is the current question. The receipt reports everything dropped as a loss.

Prompt caches need a stable prefix. A conversation that exceeds a limit is therefore not cut exactly to it, since the
next turn would exceed it again, but to a share of it. Content cut in an earlier turn is also cut in all later turns.
This needs no stored state: the cuts are derived from the conversation itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolglot.ir import Block, Message, Request, Text, ToolCall, ToolResult, replace
from toolglot.passes import Context, RequestPass
from toolglot.passes.blocks import Place, has_results, leading, with_messages
from toolglot.passes.history_cut import HistoryCutter
from toolglot.passes.history_size import NOUNS, Limit, Scale, without_image
from toolglot.passes.history_units import NO_RESULTS, separate_inserted
from toolglot.passes.turns import BEGIN
from toolglot.tokens.media import ImageTokens, tokens_by_area


def trim(
    limits: Sequence[Limit], *, keep_first: bool = False, asking: str = "", image_tokens: ImageTokens = tokens_by_area
) -> RequestPass:
    """Create the pass that keeps a conversation within these limits. `keep_first`: the user's first message stays;
    `asking`: the text that asks the model to continue; `image_tokens`: the cost of an image at the upstream."""
    scale = Scale({limit.name for limit in limits}, image_tokens)
    reasons = {limit.name: limit for limit in limits}

    def fit(request: Request, context: Context) -> Request:
        parts = separate_inserted(request.messages, BEGIN, asking)
        if parts.conversation is not request.messages:  # inserted messages do not count, and keep their place
            rest = fit(with_messages(request, parts.conversation), context).messages
            return (
                request
                if rest is parts.conversation
                else with_messages(request, parts._replace(conversation=rest).whole)
            )
        cutting = HistoryCutter(request, scale, limits)
        if not cutting.exceeded_limits:
            return request
        cutting.replay_turns(keep_first=keep_first, starts_with_user=context.can.messages.starts_with_user)
        _report(request.messages, cutting, reasons, context)
        remaining = _apply_cuts(request.messages, cutting, context)
        return with_messages(request, _start_with_user(remaining, request, context))

    return fit


def _apply_cuts(messages: Sequence[Message], cutting: HistoryCutter, context: Context) -> tuple[Message, ...]:
    changed = {number for number, _ in cutting.gone_blocks} | {number for number, _, _ in cutting.thinned}
    # Assistant turns that have become adjacent are merged; for other dialects `turns` does it.
    joins = context.source == context.target and context.can.messages.roles_alternate
    left: list[Message] = []
    before = -1
    for number, message in enumerate(messages):
        if number in cutting.gone:
            continue
        if number in changed:
            message = _cut_message(message, number, cutting)
        if joins and left and before != number - 1 and left[-1].role == message.role == "assistant":
            left[-1] = replace(left[-1], content=(*left[-1].content, *message.content))
        else:
            left.append(message)
        before = number
    return tuple(left)


def _cut_message(message: Message, number: int, cutting: HistoryCutter) -> Message:
    content = tuple(
        _drop_images(block, number, index, cutting)
        for index, block in enumerate(message.content)
        if (number, index) not in cutting.gone_blocks
    )
    left = replace(message, content=content)
    return replace(left, content=(NO_RESULTS, *content)) if has_results(message) and not has_results(left) else left


def _drop_images(block: Block, number: int, index: int, cutting: HistoryCutter) -> Block:
    if not isinstance(block, ToolResult):
        return without_image(block) if (number, index, -1) in cutting.thinned else block
    places = [inner for inner in range(len(block.content)) if (number, index, inner) in cutting.thinned]
    if not places:
        return block
    return replace(
        block,
        content=tuple(without_image(part) if inner in places else part for inner, part in enumerate(block.content)),
    )


def _start_with_user(messages: tuple[Message, ...], request: Request, context: Context) -> tuple[Message, ...]:
    """Insert a user message before a leading assistant turn; for other dialects `turns` does it."""
    if context.source != context.target or not context.can.messages.starts_with_user:
        return messages
    first = leading(messages)
    opening = messages[first : first + 1]
    if not opening or opening[0].role != "assistant" or opening[0] is request.messages[leading(request.messages)]:
        return messages
    return (*messages[:first], Message(role="user", content=(Text(text=BEGIN),)), *messages[first:])


# The receipt


def _report(messages: Sequence[Message], cutting: HistoryCutter, limits: Mapping[str, Limit], context: Context) -> None:
    receipt = context.receipt
    gone = {number for number, limit in cutting.gone.items() if limit is not None}
    for number, index, inner in sorted(cutting.thinned):
        if number not in cutting.gone and (number, index) not in cutting.gone_blocks:
            receipt.loss(str(Place(number, index, inner)), "an image", str(limits["max_images"]))
    for number, index in sorted(cutting.gone_blocks):
        block = messages[number].content[index]
        if isinstance(block, ToolCall) and number not in gone:
            what = f"call of {block.name} and its result"
            receipt.loss(str(Place(number, index)), what, str(limits["max_tool_results"]))
    for number in sorted(gone):
        if (limit := cutting.gone[number]) is not None:
            receipt.loss(str(Place(number)), _describe_message(messages[number], number, limit, cutting), str(limit))
    for limit in cutting.exceeded_limits:
        what = f"{cutting.amount(limit)} {NOUNS[limit.name]}"
        receipt.note("messages", what, f"{limit}; the current question is never dropped")


def _describe_message(message: Message, number: int, limit: Limit, cutting: HistoryCutter) -> str:
    size = "" if limit.name == "max_messages" else f" ({cutting.size(number)[limit.measure]} {NOUNS[limit.name]})"
    return f"message of the {message.role}{size}"
