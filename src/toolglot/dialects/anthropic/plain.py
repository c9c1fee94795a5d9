"""Content blocks in their plainest shape, read in one look.

Nearly all of a long conversation says just what it must: a text, a call, a result. What has one member more, or one
less, is None here and read member by member (`blocks.py`); both ways read the same.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from toolglot.dialects.anthropic.native import NO_INPUT
from toolglot.ir import Block, Text, ToolCall, ToolResult


def plain_block(block: Any, raw_input: Raw, kinds: frozenset[str] | None) -> Block | None:
    """A text, a call whose `input` was found in the bytes as well, or a result that is a text. `kinds`: the types of
    blocks that have a meaning here, if not all have."""
    if type(block) is not dict:
        return None
    kind = block.get("type")
    if kind == "text":
        if len(block) == 2 and type(text := block.get("text")) is str and (kinds is None or kind in kinds):
            return Text(text=text)
        return None
    if kinds is not None:
        return None
    if kind == "tool_use" and len(block) == 4 and raw_input is not NO_INPUT and type(block.get("input")) is dict:
        call_id, name = block.get("id"), block.get("name")
        if type(call_id) is str and type(name) is str:
            return ToolCall(id=call_id, name=name, arguments=bytes(raw_input).decode())
    elif kind == "tool_result" and len(block) == 3:
        call_id, content = block.get("tool_use_id"), block.get("content")
        if type(call_id) is str and type(content) is str and content:
            return ToolResult(call_id=call_id, content=(Text(text=content),))
    return None
