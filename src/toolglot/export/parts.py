"""A message as the parts that a page shows, whatever the page is written in."""

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

Kind = Literal["text", "refusal", "reasoning", "call", "result", "error", "media", "source", "other"]

ROLES = {"system": "System", "developer": "Developer", "user": "User", "assistant": "Assistant", "tool": "Tool"}
NAMES_KEPT = 10_000
"""Calls whose names are remembered for their results, the latest ones."""


class Part(Struct, frozen=True, kw_only=True):
    """`label` is what stands above it, in brackets; `is_code` that its text is for machines."""

    kind: Kind
    label: str = ""
    id: str = ""
    text: str = ""
    is_code: bool = False
    media: Media | None = None
    inside: tuple[Part, ...] = ()


class Parts:
    """The parts of a conversation's messages. Results are named after their calls, which come first."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, message: Message) -> Iterator[Part]:
        for block in message.content:
            yield from self._of_block(block)

    def _of_block(self, block: Block) -> Iterator[Part]:
        match block:
            case Text(text=text, citations=citations):
                if text:
                    yield Part(kind="text", text=text)
                yield from map(_source, citations)
            case Refusal(text=text):
                yield Part(kind="refusal", label="Refusal", text=text)
            case Thinking(text=text):
                yield Part(kind="reasoning", label="Reasoning" if text else "Reasoning, not readable", text=text)
            case ToolCall():
                yield self._call(block)
            case ToolResult():
                yield self._result(block)
            case Media():
                yield _medium(block)
            case Opaque(dialect=dialect, value=value):
                yield Part(kind="other", label=f"{dialect}: {_type(value)}", text=_laid_out(value), is_code=True)

    def _call(self, call: ToolCall) -> Part:
        name = call.name if call.namespace is None else f"{call.namespace}.{call.name}"
        if call.id:
            self._names[call.id] = name
            if len(self._names) > NAMES_KEPT:
                del self._names[next(iter(self._names))]
        cut = "" if call.complete else ", cut off"
        is_json = call.kind == "function"
        text = arguments_of(call) if is_json else call.arguments
        return Part(kind="call", label=f"Tool Use: {name}{cut}", id=call.id, text=text, is_code=is_json)

    def _result(self, result: ToolResult) -> Part:
        name = result.name or self._names.get(result.call_id) or "unknown tool"
        inside = tuple(part for block in result.content for part in self._of_block(block))
        kind: Kind = "error" if result.is_error else "result"
        label = f"Tool {'Error' if result.is_error else 'Result'}: {name}"
        return Part(kind=kind, label=label, id=result.call_id, inside=inside)


def arguments_of(call: ToolCall) -> str:
    """Arguments in lines; broken ones as they are."""
    if not call.arguments.strip():
        return "{}" if call.complete else ""
    try:
        json.decode(call.arguments)
    except DecodeError:
        return call.arguments
    return msgspec.json.format(call.arguments, indent=2)


def role_of(role: str) -> str:
    return ROLES.get(role) or role.capitalize()


def size_of(media: Media) -> int:
    """Bytes of what stands in the conversation itself."""
    data = media.source.data
    return len(data) * 3 // 4 - data[-2:].count("=") if media.source.kind == "base64" else len(data)


def _medium(media: Media) -> Part:
    source = media.source
    told = [media.kind.capitalize()]
    if source.kind == "text":
        label = f"{told[0]}: {media.name or source.media_type or 'text'}"
        return Part(kind="media", label=label, text=source.data, media=media)
    about = [media.name or "", source.media_type or ""]
    about.append(f"{size_of(media)} bytes" if source.kind == "base64" else source.data)
    return Part(kind="media", label=f"{told[0]}: {', '.join(filter(None, about))}", media=media)


def _source(citation: Citation) -> Part:
    told = [citation.title or "", citation.url or "", f'"{citation.quote}"' if citation.quote else ""]
    return Part(kind="source", label=f"Source: {', '.join(filter(None, told)) or 'not told'}")


def _type(value: Json) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else "other"


def _laid_out(value: Json) -> str:
    return msgspec.json.format(json.encode(value), indent=2).decode()
