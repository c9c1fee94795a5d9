"""A conversation as a file: Markdown for people, JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from toolglot.chat.conversation import Conversation, Entry, Failure, Said
from toolglot.errors import DecodeError
from toolglot.ir import Block, Media, Message, Opaque, Refusal, Text, Thinking, ToolCall, ToolResult
from toolglot.wire import json

ROLES = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tools"}
_TICKS = re.compile(r"`+")


def as_markdown(conversation: Conversation) -> str:
    """The whole conversation: who said what, which tools were called, and what they returned."""
    parts = [f"## {ROLES['system']}\n\n{conversation.system}"] if conversation.system else []
    parts += map(_entry, conversation.entries)
    return "\n\n".join(["# Conversation", *parts]) + "\n"


def as_json(conversation: Conversation) -> str:
    """The messages as they are kept: everything that a model is told, and whose words they are."""
    entries = [_fields(entry) for entry in conversation.entries]
    document = {"system": conversation.system or None, "entries": entries}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


FORMS: dict[str, Callable[[Conversation], str]] = {".md": as_markdown, ".markdown": as_markdown, ".json": as_json}
"""By the end of a file's name."""


def _fields(entry: Entry) -> dict[str, object]:
    if isinstance(entry, Failure):
        return {"error": entry.why, "model": entry.model}
    return {"model": entry.model or None, "message": entry.message}


def _entry(entry: Entry) -> str:
    if isinstance(entry, Failure):
        return f"## Error ({entry.model})\n\n{entry.why}"
    return _message(entry)


def _message(said: Said) -> str:
    message: Message = said.message
    role = ROLES.get(message.role, message.role)
    head = f"## {role} ({said.model})" if said.model else f"## {role}"
    return "\n\n".join((head, *filter(None, map(_block, message.content))))


def _block(block: Block) -> str:
    match block:
        case Text(text=text) | Refusal(text=text):
            return text.strip("\n")
        case Thinking(text=text):
            return (
                "\n".join(f"> {line}".rstrip() for line in ("[Reasoning]", *text.strip().splitlines())) if text else ""
            )
        case ToolCall():
            return f"[Tool Use: {block.name}]\n\n{fenced(_arguments(block.arguments), 'json')}"
        case ToolResult():
            return _result(block)
        case Media(kind=kind, source=source):
            return f"[{kind}: {source.media_type or source.kind}]"
        case Opaque(dialect=dialect):
            return f"[a part that only {dialect} understands]"


def _result(result: ToolResult) -> str:
    kind = "Tool Error" if result.is_error else "Tool Result"
    said = "\n\n".join(filter(None, map(_block, result.content))) or "(nothing)"
    return f"[{kind}: {result.name or result.call_id}]\n\n{fenced(said)}"


def _arguments(text: str) -> str:
    try:
        return msgspec.json.format(json.encode_text(json.decode(text)), indent=2) if text.strip() else "{}"
    except DecodeError:
        return text


def fenced(text: str, language: str = "") -> str:
    """The text as it stands, whatever marks are in it."""
    longest = max((len(run[0]) for run in _TICKS.finditer(text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def form_of(name: str) -> Callable[[Conversation], str] | None:
    """How a conversation is written into a file of this name."""
    return next((form for end, form in FORMS.items() if name.lower().endswith(end)), None)
