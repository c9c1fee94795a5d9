"""Which call of the server's is which of the client's, where the server's tasks are sent back.

A conversation is known again by its words, so the client may have other ids for the same calls: it got none, they were
rewritten for its API, or it has had the same conversation twice. A result has to bear the id that its call has in the
task. The calls are the same ones in the same order, but the task may lack the oldest, which were cut or moved away, and
have some that the client never saw: so they are paired from the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from toolglot.dialects.warp.blocks import is_call
from toolglot.ir import Block, Message, ToolCall, ToolResult, replace


def match_results(messages: Sequence[Message], covered: int, task: Any) -> tuple[Message, ...] | None:
    """What comes behind the first `covered` messages, which this task tells, its results under the task's ids.

    None where a result could not be told from another, or belongs to a call that the task does not have.
    """
    calls = [block for message in messages[:covered] for block in message.content if isinstance(block, ToolCall)]
    task_calls = [message.tool_call for message in task.messages if is_call(message)]
    id_counts = Counter(call.tool_call_id for call in task_calls)
    ids: dict[str, str | None] = {call.id: None for call in calls}  # None: there is none, or no telling which
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
    """Calls with the task's ids for them, as far back as they are the same."""
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
