"""Remove a native field from a request, by its name on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from toolglot.ir import Block, Node, Opaque, Request, Tool, ToolResult, native_of, replace

N = TypeVar("N", bound=Node)


def without_native(node: N, owner: str, name: str) -> N:
    """Remove this field of the owner from a node, also one object deeper."""
    fields = native_of(node, owner)
    rest = {key: _prune_value(value, name) for key, value in fields.items() if key != name}
    if rest == fields:
        return node
    others = {dialect: kept for dialect, kept in node.native.items() if dialect != owner}
    # An empty entry still records that the node came from this dialect, which encoders check.
    return replace(node, native={**others, owner: rest})


def without_native_anywhere(request: Request, owner: str, name: str) -> Request:
    """Remove this field from the request, its tools, messages, blocks and reasoning settings."""
    messages = tuple(
        replace(
            without_native(message, owner, name),
            content=tuple(_block_without(block, owner, name) for block in message.content),
        )
        for message in request.messages
    )
    tools = tuple(_tool_without(tool, owner, name) for tool in request.tools)
    changed = replace(without_native(request, owner, name), messages=messages, tools=tools)
    if request.reasoning is not None:
        changed = replace(changed, reasoning=without_native(request.reasoning, owner, name))
    return changed


def _block_without(block: Block, owner: str, name: str) -> Block:
    if isinstance(block, Opaque):
        return block
    if isinstance(block, ToolResult):
        block = replace(block, content=tuple(_block_without(part, owner, name) for part in block.content))
    block = without_native(block, owner, name)
    return replace(block, cache=None) if name == "cache_control" and getattr(block, "cache", None) else block


def _tool_without(tool: Tool | Opaque, owner: str, name: str) -> Tool | Opaque:
    if isinstance(tool, Opaque):
        return tool
    tool = without_native(tool, owner, name)
    return replace(tool, cache=None) if name == "cache_control" else tool


def _prune_value(value: Any, name: str) -> Any:
    if isinstance(value, Mapping) and name in value:
        return {key: item for key, item in value.items() if key != name}
    return value
