"""Place images, documents, audio and video where the target accepts them.

Media that is not allowed in a tool result moves to a user message directly after the results, and a marker replaces it
(litellm #23712: dropped images, or base64 sent as text). Media that is allowed nowhere is replaced by a marker. Base64
never becomes text.
"""

from __future__ import annotations

from toolglot import features
from toolglot.ir import Block, Media, Message, Request, Text, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, has_results, rewrite_message, with_messages
from toolglot.plan import runs_on


def marker(media: Media, what: str) -> Text:
    """The text that replaces media. It keeps the cache breakpoint."""
    named = f" {media.name}" if media.name else ""
    return Text(text=f"[{media.kind}{named} {what}]", cache=media.cache)


@runs_on(
    lambda context: 0 if context.source == context.target else features.MEDIA, adds=features.NEIGHBOURS | features.BLANK
)
def fit(request: Request, context: Context) -> Request:
    """Move each medium to a place that the target accepts, or replace it with a marker.

    A client of the target's own dialect knows where its media is accepted.
    """
    if context.source == context.target:
        return request
    messages: list[Message] = []
    moved: list[Block] = []
    for number, message in enumerate(request.messages):
        if moved and not has_results(message):
            messages.append(Message(role="user", content=tuple(moved)))
            moved = []
        fitted = _fit_message(message, number, context, moved)
        if moved and not all(isinstance(block, ToolResult) for block in message.content):
            fitted = _insert_after_results(fitted, moved)
            moved = []
        messages.append(fitted)
    if moved:
        messages.append(Message(role="user", content=tuple(moved)))
    return with_messages(request, tuple(messages))


def _insert_after_results(message: Message, moved: list[Block]) -> Message:
    """Insert moved media in the same message, between the results and the text after them."""
    results = [block for block in message.content if isinstance(block, ToolResult)]
    others = [block for block in message.content if not isinstance(block, ToolResult)]
    return replace(message, content=(*results, *moved, *others))


def _fit_message(message: Message, number: int, context: Context, moved: list[Block]) -> Message:
    # Assistant media in the target's own dialect is allowed.
    if message.role in INSTRUCTION_ROLES or (message.role == "assistant" and context.source == context.target):
        return message
    can = context.can
    allowed = can.media_in_assistant if message.role == "assistant" else can.media_in_user
    counts: dict[int, int] = {}

    def fit_block(block: Block, place: Place) -> tuple[Block, ...]:
        if not isinstance(block, Media):
            return (block,)
        if block.context and not can.media_context:
            context.receipt.note(f"{place}.context", "text about it", "it stands before it as text")
            about = Text(text=f"[context of the {block.kind}: {block.context}]")
            return (about, *fit_block(replace(block, context=None), place))
        here = can.media_in_result if place.inner >= 0 else allowed
        if block.source.kind == "text" and not ("text" in _sources(block, context) and block.kind in here):
            context.receipt.note(str(place), f"{block.kind} of plain text", "it is a text block")
            return (_as_text(block),)
        if (why := _refusal(block, context)) is not None:
            context.receipt.loss(str(place), block.kind, why)
            return (marker(block, f"left out: {why}"),)
        if block.kind in here:
            return (block,)
        if place.inner < 0 or block.kind not in can.media_in_user:
            context.receipt.loss(str(place), block.kind, "the target does not take it here")
            return (marker(block, "left out: it cannot be shown here"),)
        counts[place.block] = counts.get(place.block, 0) + 1
        result = message.content[place.block]
        assert isinstance(result, ToolResult)
        label = f"{block.kind} {counts[place.block]}"
        moved.append(Text(text=f"[{label} of the result of {result.name or 'call'} {result.call_id}:]"))
        moved.append(replace(block, cache=None))
        context.receipt.note(str(place), block.kind, "results hold no such media; it is in the next user message")
        return (Text(text=f"[{label} of this result follows in the next user message]", cache=block.cache),)

    return rewrite_message(message, number, fit_block, Media)


def _as_text(media: Media) -> Text:
    title = f"{media.name}:\n" if media.name else ""
    return Text(text=f"{title}{media.source.data}", cache=media.cache)


def _refusal(media: Media, context: Context) -> str | None:
    """Reason why the target accepts this medium nowhere; None if it may accept it."""
    source = media.source
    if source.kind == "file" and context.source != context.target:
        opens = "only the API that it was sent to can open it"
        return opens if source.data.startswith("https://") else "a file id is known to the API that gave it alone"
    if source.kind not in _sources(media, context):
        return f"the target does not take {media.kind}s by {source.kind}"
    can = context.can
    types = {"image": can.image_types, "document": can.document_types}.get(media.kind)
    if types is None or not source.media_type or source.media_type in types:
        return None
    family = source.media_type.partition("/")[0]
    return None if f"{family}/*" in types else f"the target does not take {source.media_type}"


def _sources(media: Media, context: Context) -> frozenset[str]:
    return context.can.media_sources.get(media.kind, context.can.source_kinds)
