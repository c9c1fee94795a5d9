"""The texts of the demo's answers."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from toolglot.errors import DecodeError
from toolglot.ir import Block, Media, Refusal, Text, Tool, ToolCall, ToolResult
from toolglot.upstream.demo.turn import DemoTurn
from toolglot.wire import json

MAX_QUOTE = 2000
"""Maximum characters of a result to quote."""
_ARTICLES = {"image": "an image", "audio": "audio", "video": "a video", "document": "a document"}


def report_results(turn: DemoTurn) -> str:
    """Quote the results of the calls."""
    waiting = list(turn.calls)
    lines = [_result_line(result, _call_of_result(result, waiting)) for result in turn.results]
    lines += [f"- and {describe_media(media)}" for media in turn.media]
    head = "Here is what the tool returned:" if len(turn.results) == 1 else "Here is what the tools returned:"
    return "\n".join((head, "", *lines))


def answer_without_tools(turn: DemoTurn, tools: Sequence[Tool]) -> str:
    """Answer a wish that needs no tool."""
    seen = f" You also sent {_enumerate([describe_media(media) for media in turn.media])}." if turn.media else ""
    if not turn.wish:
        return f"This is toolglot's demo upstream: rules, no model.{seen} Ask me something."
    asked = f"You said: “{_shorten(turn.wish, 300)}”.{seen}"
    if not tools:
        return f"{asked} This is toolglot's demo upstream: rules, no model. Offer me tools, and I will call them."
    names = _enumerate([tool.name for tool in tools[:6]] + ([f"{len(tools) - 6} more"] if len(tools) > 6 else []))
    return f"{asked} None of my tools fits this request; I have: {names}. Name one, and I will call it."


def reasoning_text(turn: DemoTurn, calls: Sequence[ToolCall]) -> str:
    """Return reasoning to show if it was requested."""
    if calls:
        names = _enumerate([call.name for call in calls])
        return f"The user asks: “{_shorten(turn.wish, 200)}”. That calls for {names}."
    if turn.results:
        return f"The results are there ({len(turn.results)}). I can report them."
    return f"The user says: “{_shorten(turn.wish, 200)}”. I can answer without a tool."


def describe_media(media: Media) -> str:
    """Describe an image, a document …: `an image (image/png, 1.2 KB)`."""
    source = media.source
    details = [source.media_type] if source.media_type else []
    if source.kind == "base64":
        details.append(_format_size(source.data))
    elif source.kind != "text":
        details.append(_shorten(source.data, 100))
    return _ARTICLES[media.kind] + (f" ({', '.join(details)})" if details else "")


def _call_of_result(result: ToolResult, waiting: list[ToolCall]) -> ToolCall | None:
    """Return the call that this result belongs to. Without ids, as in Gemini's API, order and names identify it."""
    for call in waiting:
        if call.id == result.call_id and (call.id or result.name in (None, call.name)):
            waiting.remove(call)
            return call
    return None


def _result_line(result: ToolResult, call: ToolCall | None) -> str:
    name = call.name if call else result.name or "tool"
    given = f" ({told})" if call and (told := _format_arguments(call)) else ""
    verb = " failed" if result.is_error else ""
    said = "; ".join(filter(None, map(_quote_block, result.content))) or "nothing"
    mark = "\n" if "\n" in said else " "
    return f"- {name}{given}{verb}:{mark}{said}"


def _format_arguments(call: ToolCall) -> str:
    try:
        arguments = json.decode(call.arguments) if call.kind == "function" else call.arguments
    except DecodeError:
        arguments = call.arguments
    if isinstance(arguments, dict):
        return ", ".join(_shorten(_format_value(value), 60) for value in arguments.values())
    return _shorten(_format_value(arguments), 60)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.encode_text(value)


def _quote_block(block: Block) -> str:
    match block:
        case Text(text=text) | Refusal(text=text):
            return text.strip() if len(text) <= MAX_QUOTE else f"{text[:MAX_QUOTE].strip()} …"
        case Media():
            return describe_media(block)
    return ""


def _format_size(base64_text: str) -> str:
    try:
        size = len(b64decode(base64_text, validate=False))
    except binascii.Error:
        size = len(base64_text) * 3 // 4
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} KB"


def _shorten(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length].rstrip()}…"


def _enumerate(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
