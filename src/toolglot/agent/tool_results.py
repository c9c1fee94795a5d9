"""Convert a tool's result for the model, within limits."""

from __future__ import annotations

import re
from typing import Any

from toolglot.errors import DecodeError
from toolglot.ir import Block, Json, Media, Opaque, Text, ToolCall, ToolResult, replace
from toolglot.tools.mcp import read_result
from toolglot.wire import json
from toolglot.wire.media_types import kind_of_media_type, normalize_source

MAX_MEDIA_BYTES = 8_000_000
"""Maximum Base64 characters of all images, sounds and files of a result. Models' APIs accept about as much."""
MAX_BLOCKS = 200
MAX_NAME = 500

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_TYPE = re.compile(r"[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,100}(;.{0,100})?")


def failed_result(call: ToolCall, why: str) -> ToolResult:
    """Return the result of a call that was not run or failed, with the reason for the model."""
    return ToolResult(call_id=call.id, name=call.name, content=(Text(text=why),), is_error=True)


def value_size(value: Json) -> int:
    """Return the approximate size in bytes."""
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, list):
        return 0
    return sum(1_000 + _block_size(block) for block in content[: 10 * MAX_BLOCKS])


def _block_size(block: Any) -> int:
    values = block.values() if isinstance(block, dict) else ()
    return sum(len(value) for value in values if isinstance(value, str))


def make_result(value: Json, call: ToolCall, limit: int) -> ToolResult:
    """Convert the result of `tools/call`, cut to `limit` bytes of text."""
    left_out = 0
    if isinstance(value, dict) and isinstance(content := value.get("content"), list):
        left_out = max(len(content) - MAX_BLOCKS, 0)
        value = {**value, "content": content[:MAX_BLOCKS]}
    try:
        result = read_result(value, call.id, call.name)
    except DecodeError as error:
        return failed_result(call, f"The tool's server returned an invalid result: {error}")
    content = (*LimitedContent(limit).blocks(result.content), *([_omitted_blocks(left_out)] if left_out else ()))
    return replace(result, content=content, native={})


def _omitted_blocks(count: int) -> Text:
    return Text(text=f"[{count} more parts of the result left out: {MAX_BLOCKS} are the most]")


class LimitedContent:
    """The remaining budget: `limit` bytes of text, and as much media as models accept."""

    def __init__(self, limit: int) -> None:
        self._text = limit
        self._media = MAX_MEDIA_BYTES

    def blocks(self, content: tuple[Block, ...]) -> list[Block]:
        return [self._block(block) for block in content]

    def _block(self, block: Block) -> Block:
        """Convert a block without its host-only members. A block that is too long is cut."""
        match block:
            case Text(text=text):
                return self._cut(text, Text(text=text))
            case Media(source=source) if source.kind == "text":
                return self._cut(source.data, self._with_short_name(block))
            case Media():
                return self._limited_media(block)
            case Opaque(value=value):
                return self._cut(json.encode_text(value))  # no model's API has a place for it, but it may be useful
        return block

    def _cut(self, text: str, whole: Block | None = None) -> Block:
        size = len(text.encode("utf-8", "surrogatepass"))
        left, self._text = self._text, max(self._text - size, 0)
        return (whole or Text(text=text)) if size <= left else Text(text=cut_text(text, left, size))

    def _limited_media(self, media: Media) -> Block:
        data, kind = media.source.data, media.source.media_type
        if len(data) > self._media:
            return Text(text=f"[{media.kind} of {len(data)} characters left out: it is too large]")
        is_own_kind = media.kind in ("document", kind_of_media_type(kind))
        fits = kind is None or (_TYPE.fullmatch(kind) and is_own_kind)
        if not fits or (media.source.kind == "base64" and not _BASE64.fullmatch(data)):
            return Text(text=f"[{media.kind} left out: its content does not match its type]")
        self._media -= len(data)
        return self._with_short_name(media)

    def _with_short_name(self, media: Media) -> Media:
        name = None if media.name is None else media.name[:MAX_NAME]
        kind = media.source.media_type
        source = media.source if kind is None or _TYPE.fullmatch(kind) else replace(media.source, media_type=None)
        return replace(media, name=name, source=normalize_source(source, media.kind), native={})


def cut_text(text: str, limit: int, size: int) -> str:
    kept = text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut off: {len(kept.encode('utf-8'))} of {size} bytes]"
