"""What the demo says."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from toolglot.errors import DecodeError
from toolglot.ir import Block, Media, Refusal, Text, Tool, ToolCall, ToolResult
from toolglot.upstream.demo.turn import Turn
from toolglot.wire import json

MAX_QUOTE = 2000
"""Characters of a result that are quoted."""
_ARTICLES = {"image": "an image", "audio": "audio", "video": "a video", "document": "a document"}


def report(turn: Turn) -> str:
    """The results of the calls, quoted."""
    waiting = list(turn.calls)
    lines = [_line(result, _answered(result, waiting)) for result in turn.results]
    lines += [f"- and {describe(media)}" for media in turn.media]
    head = "Here is what the tool returned:" if len(turn.results) == 1 else "Here is what the tools returned:"
    return "\n".join((head, "", *lines))


def hello(turn: Turn, tools: Sequence[Tool]) -> str:
    """The answer to a wish that no tool is called for."""
    seen = f" You also sent {_enumerated([describe(media) for media in turn.media])}." if turn.media else ""
    if not turn.wish:
        return f"This is toolglot's demo upstream: rules, no model.{seen} Ask me something."
    asked = f"You said: “{_short(turn.wish, 300)}”.{seen}"
    if not tools:
        return f"{asked} This is toolglot's demo upstream: rules, no model. Offer me tools, and I will call them."
    names = _enumerated([tool.name for tool in tools[:6]] + ([f"{len(tools) - 6} more"] if len(tools) > 6 else []))
    return f"{asked} None of my tools seems to be meant; I have {names}. Name one, and I will call it."


def thought(turn: Turn, calls: Sequence[ToolCall]) -> str:
    """Reasoning to show, where it is wanted."""
    if calls:
        names = _enumerated([call.name for call in calls])
        return f"The user asks: “{_short(turn.wish, 200)}”. That calls for {names}."
    if turn.results:
        return f"The results are there ({len(turn.results)}). I can report them."
    return f"The user says: “{_short(turn.wish, 200)}”. I can answer without a tool."


def describe(media: Media) -> str:
    """An image, a document …, in words: `an image (image/png, 1.2 KB)`."""
    source = media.source
    details = [source.media_type] if source.media_type else []
    if source.kind == "base64":
        details.append(_size(source.data))
    elif source.kind != "text":
        details.append(_short(source.data, 100))
    return _ARTICLES[media.kind] + (f" ({', '.join(details)})" if details else "")


def _answered(result: ToolResult, waiting: list[ToolCall]) -> ToolCall | None:
    """The call that this is the result of. Where there are no ids, as in Gemini's, order and names tell."""
    for call in waiting:
        if call.id == result.call_id and (call.id or result.name in (None, call.name)):
            waiting.remove(call)
            return call
    return None


def _line(result: ToolResult, call: ToolCall | None) -> str:
    name = call.name if call else result.name or "tool"
    given = f" ({told})" if call and (told := _arguments(call)) else ""
    verb = " failed" if result.is_error else ""
    said = "; ".join(filter(None, map(_quote, result.content))) or "nothing"
    mark = "\n" if "\n" in said else " "
    return f"- {name}{given}{verb}:{mark}{said}"


def _arguments(call: ToolCall) -> str:
    try:
        arguments = json.decode(call.arguments) if call.kind == "function" else call.arguments
    except DecodeError:
        arguments = call.arguments
    if isinstance(arguments, dict):
        return ", ".join(_short(_plain(value), 60) for value in arguments.values())
    return _short(_plain(arguments), 60)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.encode_text(value)


def _quote(block: Block) -> str:
    match block:
        case Text(text=text) | Refusal(text=text):
            return text.strip() if len(text) <= MAX_QUOTE else f"{text[:MAX_QUOTE].strip()} …"
        case Media():
            return describe(block)
    return ""


def _size(base64_text: str) -> str:
    try:
        size = len(b64decode(base64_text, validate=False))
    except binascii.Error:
        size = len(base64_text) * 3 // 4
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} KB"


def _short(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length].rstrip()}…"


def _enumerated(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
