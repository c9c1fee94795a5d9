"""Whose messages are these? Told by the members that one dialect has and the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

UNMARKED = "openai_chat"
"""The dialect of messages in which nothing tells it: a role and a text, which several read alike."""

_MESSAGE: dict[str, frozenset[str]] = {
    "openai_chat": frozenset(
        {
            "tool_calls",
            "tool_call_id",
            "function_call",
            "reasoning_content",
            "role=tool",
            "role=function",
            "content.type=image_url",
            "content.type=input_audio",
            "content.type=file",
        }
    ),
    "openai_responses": frozenset(
        {
            "call_id",
            "type=message",
            "type=function_call",
            "type=function_call_output",
            "type=custom_tool_call",
            "type=reasoning",
            "type=item_reference",
            "encrypted_content",
            "content.type=input_text",
            "content.type=input_image",
            "content.type=input_file",
            "content.type=output_text",
            "instructions",
        }
    ),
    "anthropic": frozenset(
        {
            "system",
            "content.type=tool_use",
            "content.type=tool_result",
            "content.type=thinking",
            "content.type=redacted_thinking",
            "content.type=server_tool_use",
            "content.cache_control",
            "content.source",
        }
    ),
    "gemini": frozenset({"parts", "systemInstruction", "system_instruction"}),
    "warp": frozenset({"task_context"}),
}
"""Marks of one message; of a member that is a list, those of its elements."""

_BODY: dict[str, frozenset[str]] = {
    "openai_chat": frozenset(
        {"max_completion_tokens", "response_format", "stream_options", "functions", "tools.function", "n", "stop"}
    ),
    "openai_responses": frozenset(
        {"input", "instructions", "previous_response_id", "store", "include", "max_output_tokens", "tools.parameters"}
    ),
    "anthropic": frozenset(
        {"system", "stop_sequences", "thinking", "anthropic_version", "anthropic_beta", "tools.input_schema"}
    ),
    "gemini": frozenset(
        {"contents", "systemInstruction", "system_instruction", "generationConfig", "generation_config"}
    ),
    "warp": frozenset({"task_context", "mcp_context"}),
}
"""The same of a request's body."""

_TOLD = ("type", "role")
"""Members whose value is a mark."""


def dialect_of_message(message: Any) -> str | None:
    return _best(set(_marks(message)), _MESSAGE)


def dialect_of_body(body: Any) -> str | None:
    found = set(_marks(body))
    if (dialect := _best(found, _BODY)) is not None:
        return dialect
    messages = body.get("messages") if isinstance(body, dict) else None
    return dialect_of_messages(messages if isinstance(messages, list) else ())


def dialect_of_messages(messages: Iterable[Any]) -> str | None:
    """The dialect that the first message with a mark has."""
    return next((found for message in messages if (found := dialect_of_message(message)) is not None), None)


def _best(found: set[str], marks: dict[str, frozenset[str]]) -> str | None:
    """The dialect with most marks; None where there is none, or a rival."""
    counts = sorted(((len(found & own), name) for name, own in marks.items()), reverse=True)
    return counts[0][1] if counts[0][0] > counts[1][0] else None


def _marks(value: Any, prefix: str = "") -> Iterator[str]:
    for name, member in value.items() if isinstance(value, dict) else ():
        yield prefix + name
        if name in _TOLD and isinstance(member, str):
            yield f"{prefix}{name}={member}"
        if not prefix and isinstance(member, list):
            for element in member:
                yield from _marks(element, f"{name}.")
