"""Fast path for items of `input` in their usual form.

Nearly all of a long conversation is plain texts, calls and results. For a message with anything else the result is
None, and `items.py` and `blocks.py` encode it member by member. Both give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Block, Message, Text, ToolCall, ToolResult


def encode_simple_items(message: Message) -> list[dict[str, Any]] | None:
    """Encode a message of another dialect that consists of calls, results and assistant texts, or only of texts of
    another role."""
    if NAME in message.native or not message.content:
        return None
    if message.role != "assistant" and type(message.content[0]) is Text:
        return _encode_texts(message)
    items: list[dict[str, Any]] = []
    for block in message.content:
        write = _ENCODERS.get(type(block))
        item = write(block, message) if write is not None else None
        if item is None:
            return None
        items.append(item)
    return items


def _encode_texts(message: Message) -> list[dict[str, Any]] | None:
    parts: list[dict[str, Any]] = []
    for block in message.content:
        if not _is_plain_text(block):
            return None
        parts.append({"type": "input_text", "text": block.text})
    return [{"type": "message", "role": message.role, "content": parts}]


def _is_plain_text(block: Block) -> TypeGuard[Text]:
    return type(block) is Text and block.cache is None and not block.citations and NAME not in block.native


def _encode_text(block: Block, message: Message) -> dict[str, Any] | None:
    if not _is_plain_text(block) or message.role != "assistant":
        return None
    return {"type": "message", "role": "assistant", "content": block.text}


def _encode_call(block: Block, message: Message) -> dict[str, Any] | None:
    assert isinstance(block, ToolCall)
    unusual = block.cache is not None or block.namespace is not None or not block.complete or block.kind != "function"
    if unusual or NAME in block.native or not block.id or not block.arguments or block.arguments.isspace():
        return None
    return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": block.arguments}


def _encode_result(block: Block, message: Message) -> dict[str, Any] | None:
    assert isinstance(block, ToolResult)
    if NAME in block.native or block.cache is not None or block.is_error or block.kind != "function":
        return None
    if not block.call_id or len(block.content) != 1 or not _is_plain_text(only := block.content[0]) or not only.text:
        return None
    return {"type": "function_call_output", "call_id": block.call_id, "output": only.text}


_ENCODERS: dict[type[Block], Callable[[Block, Message], dict[str, Any] | None]] = {
    Text: _encode_text,
    ToolCall: _encode_call,
    ToolResult: _encode_result,
}
