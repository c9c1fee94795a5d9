"""The parts of a message that a page shows, independent of the page's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.ir import (
    Block,
    Citation,
    Json,
    Media,
    Message,
    Opaque,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolglot.wire import json

PartKind = Literal["text", "refusal", "reasoning", "call", "result", "error", "media", "source", "other"]

ROLES = {"system": "System", "developer": "Developer", "user": "User", "assistant": "Assistant", "tool": "Tool"}
MAX_CALL_NAMES = 10_000
"""Maximum number of latest calls whose names are remembered for their results."""


class PagePart(Struct, frozen=True, kw_only=True):
    """A part of the page. `label` is shown above the part, in brackets. `is_code`: the text is for machines."""

    kind: PartKind
    label: str = ""
    id: str = ""
    text: str = ""
    is_code: bool = False
    media: Media | None = None
    inside: tuple[PagePart, ...] = ()


class PageParts:
    """The parts of a conversation's messages. A result gets the name of its call, which comes first."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, message: Message) -> Iterator[PagePart]:
        for block in message.content:
            yield from self._of_block(block)

    def _of_block(self, block: Block) -> Iterator[PagePart]:
        match block:
            case Text(text=text, citations=citations):
                if text:
                    yield PagePart(kind="text", text=text)
                yield from map(_source_part, citations)
            case Refusal(text=text):
                yield PagePart(kind="refusal", label="Refusal", text=text)
            case Thinking(text=text):
                yield PagePart(kind="reasoning", label="Reasoning" if text else "Reasoning, not readable", text=text)
            case ToolCall():
                yield self._call(block)
            case ToolResult():
                yield self._result(block)
            case Media():
                yield _media_part(block)
            case Opaque(dialect=dialect, value=value):
                yield PagePart(kind="other", label=f"{dialect}: {_type(value)}", text=_pretty_json(value), is_code=True)

    def _call(self, call: ToolCall) -> PagePart:
        name = call.name if call.namespace is None else f"{call.namespace}.{call.name}"
        if call.id:
            self._names[call.id] = name
            if len(self._names) > MAX_CALL_NAMES:
                del self._names[next(iter(self._names))]
        cut = "" if call.complete else ", cut off"
        is_json = call.kind == "function"
        text = format_arguments(call) if is_json else call.arguments
        return PagePart(kind="call", label=f"Tool Use: {name}{cut}", id=call.id, text=text, is_code=is_json)

    def _result(self, result: ToolResult) -> PagePart:
        name = result.name or self._names.get(result.call_id) or "unknown tool"
        inside = tuple(part for block in result.content for part in self._of_block(block))
        kind: PartKind = "error" if result.is_error else "result"
        label = f"Tool {'Error' if result.is_error else 'Result'}: {name}"
        return PagePart(kind=kind, label=label, id=result.call_id, inside=inside)


def format_arguments(call: ToolCall) -> str:
    """Return formatted arguments; invalid ones unchanged."""
    if not call.arguments.strip():
        return "{}" if call.complete else ""
    try:
        json.decode(call.arguments)
    except DecodeError:
        return call.arguments
    return msgspec.json.format(call.arguments, indent=2)


def role_title(role: str) -> str:
    return ROLES.get(role) or role.capitalize()


def media_size(media: Media) -> int:
    """Return the bytes of media data in the conversation itself."""
    data = media.source.data
    return len(data) * 3 // 4 - data[-2:].count("=") if media.source.kind == "base64" else len(data)


def _media_part(media: Media) -> PagePart:
    source = media.source
    told = [media.kind.capitalize()]
    if source.kind == "text":
        label = f"{told[0]}: {media.name or source.media_type or 'text'}"
        return PagePart(kind="media", label=label, text=source.data, media=media)
    about = [media.name or "", source.media_type or ""]
    about.append(f"{media_size(media)} bytes" if source.kind == "base64" else source.data)
    return PagePart(kind="media", label=f"{told[0]}: {', '.join(filter(None, about))}", media=media)


def _source_part(citation: Citation) -> PagePart:
    told = [citation.title or "", citation.url or "", f'"{citation.quote}"' if citation.quote else ""]
    return PagePart(kind="source", label=f"Source: {', '.join(filter(None, told)) or 'not told'}")


def _type(value: Json) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else "other"


def _pretty_json(value: Json) -> str:
    return msgspec.json.format(json.encode(value), indent=2).decode()
