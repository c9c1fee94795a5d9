"""Messages in their plainest shape, read in one look.

Nearly all of a long conversation says just what it must: a text, calls, a result. What has one member more, or one
less, is None here and read member by member (`request.py`); both ways read the same.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Block, Message, Text, ToolCall, ToolResult


def plain_message(message: Any) -> Message | None:
    if type(message) is not dict:
        return None
    role, content = message.get("role"), message.get("content")
    if type(role) is not str or role == "function":
        return None
    if role == "tool":
        return _result(message, content)
    if role == "assistant" and len(message) == 3:
        return _calls(message, content)
    if len(message) != 2 or type(content) is not str or not content:
        return None
    return Message(role=role, content=(Text(text=content),))


def _result(message: dict[str, Any], content: Any) -> Message | None:
    call_id = message.get("tool_call_id")
    if len(message) != 3 or type(call_id) is not str or type(content) is not str or not content:
        return None
    return Message(role="tool", content=(ToolResult(call_id=call_id, content=(Text(text=content),)),))


def _calls(message: dict[str, Any], content: Any) -> Message | None:
    """An assistant's calls, behind a text or none."""
    listed = message.get("tool_calls")
    if type(listed) is not list or not listed or "content" not in message:
        return None
    blocks: list[Block] = []
    if type(content) is str and content:
        blocks.append(Text(text=content))
    elif content is not None:
        return None
    for entry in listed:
        if (call := plain_call(entry)) is None:
            return None
        blocks.append(call)
    return Message(
        role="assistant", content=tuple(blocks), native={NAME: {"$content": "null"}} if content is None else {}
    )


def plain_call(entry: Any) -> ToolCall | None:
    """An entry of `tool_calls` that is a call of a function and nothing else."""
    if type(entry) is not dict or len(entry) != 3 or entry.get("type") != "function":
        return None
    call_id, function = entry.get("id"), entry.get("function")
    if type(call_id) is not str or type(function) is not dict or len(function) != 2:
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if type(name) is not str or type(arguments) is not str or not arguments:
        return None
    return ToolCall(id=call_id, name=name, arguments=arguments)
