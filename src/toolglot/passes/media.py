"""Place images, documents, audio and video where the target accepts them.

Media that is not allowed in a tool result moves to a user message directly after the results, and a marker replaces it
(litellm #23712: dropped images, or base64 sent as text). Media that is allowed nowhere is replaced by a marker. Base64
never becomes text.

Vendors compare media types by their registered names, and some compare them with the data (claude-code #35234). So a
type is normalized first, and replaced if the data shows another one.
"""

from __future__ import annotations

import base64
import binascii

from toolglot import features
from toolglot.ir import Block, Media, Message, Request, Source, Text, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, has_results, rewrite_message, with_messages
from toolglot.plan import runs_on
from toolglot.wire.data_url import read_url
from toolglot.wire.media_types import charset_of, normalize_source


def marker(media: Media, what: str) -> Text:
    """Return the text that replaces media. It keeps the cache breakpoint."""
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
    can = context.can.media
    allowed = can.in_assistant if message.role == "assistant" else can.in_user
    counts: dict[int, int] = {}

    def fit_block(block: Block, place: Place) -> tuple[Block, ...]:
        if not isinstance(block, Media):
            return (block,)
        if block.context and not can.context:
            context.receipt.note(f"{place}.context", "text about it", "it precedes it as text")
            about = Text(text=f"[context of the {block.kind}: {block.context}]")
            return (about, *fit_block(replace(block, context=None), place))
        block = normalize_type(block, place, context)
        here = can.in_result if place.inner >= 0 else allowed
        if block.source.kind == "text" and not ("text" in _sources(block, context) and block.kind in here):
            context.receipt.note(str(place), f"{block.kind} of plain text", "it is a text block")
            return (_as_text(block),)
        if (why := _refusal(block, context)) is not None:
            context.receipt.loss(str(place), block.kind, why)
            return (marker(block, f"left out: {why}"),)
        if block.kind in here:
            return (block,)
        if place.inner < 0 or block.kind not in can.in_user:
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


def normalize_type(media: Media, place: Place, context: Context) -> Media:
    """Decode a data URL, and set the actual media type by its registered name, without parameters."""
    given = media.source
    read = read_url(given.data)[0] if given.kind == "url" else given
    if read.kind == "url":
        read = given
    source = normalize_source(_in_utf8(read), media.kind, media.name)
    if source == given:
        return media
    declared = read.media_type
    if source.media_type != declared:
        why = f"it is sent as {source.media_type}"
        context.receipt.note(f"{place}.media_type", f"media type {declared}" if declared else "no media type", why)
    return replace(media, source=source)


_UTF8 = (None, "utf-8", "utf8", "us-ascii", "ascii")


def _in_utf8(source: Source) -> Source:
    """Convert a text file to UTF-8. Other APIs have no place for its charset."""
    charset = charset_of(source.media_type) if source.kind == "base64" and source.media_type else None
    if charset in _UTF8:
        return source
    assert charset is not None
    try:
        text = base64.b64decode(source.data, validate=True).decode(charset)
    except (binascii.Error, ValueError, LookupError):
        return source
    return replace(source, data=base64.b64encode(text.encode("utf-8", "surrogatepass")).decode())


def _as_text(media: Media) -> Text:
    title = f"{media.name}:\n" if media.name else ""
    return Text(text=f"{title}{media.source.data}", cache=media.cache)


def _refusal(media: Media, context: Context) -> str | None:
    """Return the reason why the target does not accept this medium anywhere; None if it may accept it."""
    source = media.source
    can = context.can.media
    is_known = can.file_store != "" and can.file_store == context.source_can.media.file_store
    if source.kind == "file" and context.source != context.target and not is_known:
        opens = "only the API that it was sent to can open it"
        return opens if source.data.startswith("https://") else "only the API that issued a file id knows it"
    if source.kind not in _sources(media, context):
        return f"the target does not take {media.kind}s by {source.kind}"
    if source.kind == "url" and can.url_schemes is not None:
        scheme = source.data.partition(":")[0].lower()
        if scheme not in can.url_schemes:
            return f"the target does not open {scheme} URLs" if len(scheme) < _LONG_SCHEME else "it is not a URL"
    types = {"image": can.image_types, "document": can.document_types}.get(media.kind)
    if types is None or not source.media_type or source.media_type in types or source.kind == "text":
        return None
    family = source.media_type.partition("/")[0]
    return None if f"{family}/*" in types else f"the target does not take {source.media_type}"


_LONG_SCHEME = 20


def _sources(media: Media, context: Context) -> frozenset[str]:
    return context.can.media.source_kinds_by_media.get(media.kind, context.can.media.source_kinds)
