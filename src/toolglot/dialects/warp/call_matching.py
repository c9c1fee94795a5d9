"""Matches the calls of the server's tasks with those of the client, when the tasks are sent back.

A conversation is recognized by its text, so the client may have other ids for the same calls: it got none, they were
rewritten for its API, or it had the same conversation twice. A result must have the id of its call in the task. The
calls are the same in the same order, but the task may lack the oldest ones, which were cut or moved, and may have some
that the client never saw. So they are paired from the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from toolglot.dialects.warp.blocks import is_call
from toolglot.ir import Block, Message, ToolCall, ToolResult, replace


def match_results(messages: Sequence[Message], covered: int, task: Any) -> tuple[Message, ...] | None:
    """The messages after the first `covered` ones, which this task covers, with results under the task's ids.

    None if a result cannot be matched with exactly one call of the task.
    """
    calls = [block for message in messages[:covered] for block in message.content if isinstance(block, ToolCall)]
    task_calls = [message.tool_call for message in task.messages if is_call(message)]
    id_counts = Counter(call.tool_call_id for call in task_calls)
    ids: dict[str, str | None] = {call.id: None for call in calls}  # None: no id, or an ambiguous one
    for call, own in _pair_calls(calls, task_calls):
        ids[call.id] = own if own and id_counts[own] == 1 else None
    new_messages: list[Message] = []
    for message in messages[covered:]:
        content: list[Block] = []
        for block in message.content:
            if isinstance(block, ToolCall):
                if block.id in id_counts:
                    return None
                ids[block.id] = block.id
            elif isinstance(block, ToolResult) and block.call_id in ids:
                known = ids[block.call_id]
                if known is None:
                    return None
                block = block if known == block.call_id else replace(block, call_id=known)
            content.append(block)
        new_messages.append(replace(message, content=tuple(content)))
    return tuple(new_messages)


def _pair_calls(calls: Sequence[ToolCall], task_calls: Sequence[Any]) -> list[tuple[ToolCall, str]]:
    """Pair calls with the task's ids, from the end back to the first difference."""
    names = {call.name for call in calls}
    seen = [call for call in task_calls if _tool_name(call) in names]
    pairs: list[tuple[ToolCall, str]] = []
    for call, other in zip(reversed(calls), reversed(seen), strict=False):
        if call.name != _tool_name(other):
            break
        pairs.append((call, other.tool_call_id))
    return pairs[::-1]


def _tool_name(call: Any) -> str:
    tool: str = call.WhichOneof("tool")
    return call.call_mcp_tool.name if tool == "call_mcp_tool" else tool
