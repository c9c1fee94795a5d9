"""Whose messages are these? Told by the members that one dialect has and the others do not.

A mark is the path of a member: `[]` is any element of an array, `{}` a member that is an object, `=` tells a member's
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

Marks: TypeAlias = Mapping[str, frozenset[str]]
"""The telling marks of each dialect."""

UNMARKED = "openai_chat"
"""The dialect of messages in which nothing tells it: a role and a text, which several read alike."""

_MESSAGE: Marks = {
    "openai_chat": frozenset(
        {
            "tool_calls",
            "tool_call_id",
            "function_call",
            "reasoning_content",
            "role=tool",
            "role=function",
            "content[].type=image_url",
            "content[].type=input_audio",
            "content[].type=file",
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
            "content[].type=input_text",
            "content[].type=input_image",
            "content[].type=input_file",
            "content[].type=output_text",
            "instructions",
        }
    ),
    "anthropic": frozenset(
        {
            "system",
            "content[].type=tool_use",
            "content[].type=tool_result",
            "content[].type=thinking",
            "content[].type=redacted_thinking",
            "content[].type=server_tool_use",
            "content[].cache_control",
            "content[].source",
        }
    ),
    "gemini": frozenset({"parts", "systemInstruction", "system_instruction"}),
    "warp": frozenset({"task_context", "input.user_inputs"}),
}
"""Marks of one message."""

_BODY: Marks = {
    "openai_chat": frozenset(
        {"max_completion_tokens", "response_format", "stream_options", "functions", "tools[].function", "n", "stop"}
    ),
    "openai_responses": frozenset(
        {"input", "instructions", "previous_response_id", "store", "include", "max_output_tokens", "tools[].parameters"}
    ),
    "anthropic": frozenset(
        {"system", "stop_sequences", "thinking", "anthropic_version", "anthropic_beta", "tools[].input_schema"}
    ),
    "gemini": frozenset(
        {"contents", "systemInstruction", "system_instruction", "generationConfig", "generation_config"}
    ),
    # Responses' input is a text or an array.
    "warp": frozenset({"task_context", "mcp_context", "input{}", "input.user_inputs"}),
}
"""The same of a request's body."""


def dialect_of_message(message: Any) -> str | None:
    return nearest(set(marks_in(message, 2)), _MESSAGE)


def dialect_of_body(body: Any) -> str | None:
    if (dialect := nearest(set(marks_in(body, 2)), _BODY)) is not None:
        return dialect
    messages = body.get("messages") if isinstance(body, dict) else None
    return dialect_of_messages(messages if isinstance(messages, list) else ())


def dialect_of_messages(messages: Iterable[Any]) -> str | None:
    """The dialect that the first message with a mark has."""
    return next((found for message in messages if (found := dialect_of_message(message)) is not None), None)


def nearest(found: Set[str], marks: Marks) -> str | None:
    """The dialect with most of these marks; None where there is none, or a rival."""
    counts = sorted(((len(found & own), name) for name, own in marks.items()), reverse=True)
    return counts[0][1] if counts[0][0] > counts[1][0] else None


_TOLD = ("type", "role", "object")
"""Members whose value is a mark."""


def marks_in(value: Any, depth: int, path: str = "") -> Iterator[str]:
    """The paths of a document's members, down to so many objects one in the other."""
    if not depth:
        return
    if isinstance(value, list):
        for element in value:
            yield from marks_in(element, depth, f"{path}[]")
    elif isinstance(value, dict):
        for name, member in value.items():
            inner = f"{path}.{name}" if path else name
            yield inner
            if isinstance(member, dict):
                yield f"{inner}{{}}"
            if name in _TOLD and isinstance(member, str):
                yield f"{inner}={member}"
            yield from marks_in(member, depth - 1, inner)
