"""Items of `input` in their plainest shape, written in one look.

Nearly all of a long conversation says just what it must: a text, a call, a result. A message with anything else is None
here and written member by member (`items.py`, `blocks.py`); the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Block, Message, Text, ToolCall, ToolResult


def plain_items(message: Message) -> list[dict[str, Any]] | None:
    """The items of a message of another dialect: calls, results, the assistant's texts, or texts of somebody else and
    nothing beside them."""
    if NAME in message.native or not message.content:
        return None
    if message.role != "assistant" and type(message.content[0]) is Text:
        return _texts_item(message)
    items: list[dict[str, Any]] = []
    for block in message.content:
        write = _WRITERS.get(type(block))
        item = write(block, message) if write is not None else None
        if item is None:
            return None
        items.append(item)
    return items


def _texts_item(message: Message) -> list[dict[str, Any]] | None:
    parts: list[dict[str, Any]] = []
    for block in message.content:
        if not _is_bare(block):
            return None
        parts.append({"type": "input_text", "text": block.text})
    return [{"type": "message", "role": message.role, "content": parts}]


def _is_bare(block: Block) -> TypeGuard[Text]:
    return type(block) is Text and block.cache is None and not block.citations and NAME not in block.native


def _text_item(block: Block, message: Message) -> dict[str, Any] | None:
    if not _is_bare(block) or message.role != "assistant":
        return None
    return {"type": "message", "role": "assistant", "content": block.text}


def _call_item(block: Block, message: Message) -> dict[str, Any] | None:
    assert isinstance(block, ToolCall)
    unusual = block.cache is not None or block.namespace is not None or not block.complete or block.kind != "function"
    if unusual or NAME in block.native or not block.id or not block.arguments or block.arguments.isspace():
        return None
    return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": block.arguments}


def _result_item(block: Block, message: Message) -> dict[str, Any] | None:
    assert isinstance(block, ToolResult)
    if NAME in block.native or block.cache is not None or block.is_error or block.kind != "function":
        return None
    if not block.call_id or len(block.content) != 1 or not _is_bare(only := block.content[0]) or not only.text:
        return None
    return {"type": "function_call_output", "call_id": block.call_id, "output": only.text}


_WRITERS: dict[type[Block], Callable[[Block, Message], dict[str, Any] | None]] = {
    Text: _text_item,
    ToolCall: _call_item,
    ToolResult: _result_item,
}
