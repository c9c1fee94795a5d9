"""Readable forms of blocks that only Messages has: search results, documents made of blocks, hosted tool calls and
their results, the summary of a compaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from toolglot.dialects.anthropic.blocks import decode_block, decode_blocks
from toolglot.dialects.anthropic.media import joined_text
from toolglot.dialects.anthropic.native import NAME, decode_cache, keep
from toolglot.dialects.anthropic.wire import (
    BrowserState,
    CompositeDocument,
    HostedToolResult,
    HostedToolUse,
    ReadableBlock,
    SearchResultBlock,
    read_block,
)
from toolglot.ir import Block, Media, Opaque, Text, Thinking, ToolCall, replace
from toolglot.readable import ReadableTypes, hosted_text, typed
from toolglot.wire import json
from toolglot.wire.structs import Unknown, members_without


def _read_search_result(block: SearchResultBlock) -> tuple[Block, ...] | None:
    content = block.content
    text = joined_text(content)
    if text is None:
        return None
    taken = ["title", "source"]
    if not isinstance(content, list) or all(item.keys() <= {"type", "text"} for item in content):
        taken.append("content")  # otherwise the receipt reports the members beside the texts
    return _with_leftovers(block, taken, Text(text=f"{block.title or ''} ({block.source or ''}):\n{text}"))


def _read_document(block: CompositeDocument) -> tuple[Block, ...] | None:
    """Read a document that is made of blocks (texts and images)."""
    parts = block.source.content
    if not isinstance(parts, list):
        content: tuple[Block, ...] = (Text(text=parts),) if parts else ()
    elif any(isinstance(part, Unknown) for part in parts):
        return None
    else:
        content = decode_blocks(parts)
    heading = Text(text="\n".join(part for part in (block.title and f"{block.title}:", block.context) if part))
    rest: dict[str, Any] = block.source.rest or {}
    left = {"source": dict(rest)} if any(rest.values()) else {}
    return _with_leftovers(
        block, ("source", "title", "context"), *((heading,) if heading.text else ()), *content, **left
    )


def _read_hosted_call(block: HostedToolUse) -> tuple[Block, ...]:
    server = f" on {block.server_name}" if block.server_name else ""
    called = f"call of {None if block.name is UNSET else block.name}{server}"
    return _with_leftovers(block, ("name", "server_name", "id", "input"), hosted_text(called, block.input or {}))


def _read_hosted_result(block: HostedToolResult) -> tuple[Block, ...] | None:
    content = block.content
    if content in (UNSET, None):
        return None
    hidden: dict[str, Any] = {}
    text = joined_text(content)
    found = hosted_text(block.type, _without_encrypted(content, hidden) if text is None else text)
    return _with_leftovers(block, ("tool_use_id", "content"), found, **hidden)


def _read_fetched_page(block: HostedToolResult) -> tuple[Block, ...] | None:
    """Read a fetched page: its heading as text, its content as a document."""
    fetched = block.content
    if not isinstance(fetched, dict) or not isinstance(fetched.get("content"), dict):
        return _read_hosted_result(block)
    page = decode_block(read_block(json.encode(fetched["content"]), "$.content"))
    found = READABLE["document"](page.value) if isinstance(page, Opaque) else (page,)
    heading = _read_hosted_result(replace(block, content={key: fetched[key] for key in fetched if key != "content"}))
    return None if found is None or heading is None else (*heading, *found)


def _without_encrypted(value: Any, hidden: dict[str, Any]) -> Any:
    """Remove `encrypted_*` members, which only the vendor's server can read. They go to `hidden` for the receipt."""
    if isinstance(value, list):
        return [_without_encrypted(item, hidden) for item in value]
    if not isinstance(value, dict):
        return value
    hidden |= {f"content.{key}": item for key, item in value.items() if key.startswith("encrypted_")}
    return {key: _without_encrypted(item, hidden) for key, item in value.items() if not key.startswith("encrypted_")}


def _read_compaction(block: HostedToolResult) -> tuple[Block, ...] | None:
    if not block.content or not isinstance(block.content, str):
        return None
    return _with_leftovers(block, ("content",), hosted_text("summary of the conversation so far", block.content))


def _read_browser_state(block: BrowserState) -> tuple[Block, ...]:
    state = {key: value for key in ("tabs", "state_changes") if (value := getattr(block, key)) not in (UNSET, None)}
    return _with_leftovers(block, state, hosted_text("browser_state", state))


def _with_leftovers(block: ReadableBlock, taken: Iterable[str], *found: Block, **left: Any) -> tuple[Block, ...]:
    """Attach unread members to the first block as native, for the receipt, and the cache breakpoint to the last."""
    rest = {**members_without(block, "type", "cache_control", *taken), **left}
    cache = decode_cache(block.cache_control)
    first, *others = found
    if rest and not isinstance(first, Opaque):
        own = {**first.native.get(NAME, {}), **keep(rest)[NAME]}
        first = replace(first, native={**first.native, NAME: own})
    blocks = [first, *others]
    if cache is not None and isinstance(last := blocks[-1], (Text, Media, Thinking, ToolCall)):
        blocks[-1] = replace(last, cache=cache)
    return tuple(blocks)


READABLE: ReadableTypes = {
    "search_result": typed(SearchResultBlock, _read_search_result),
    "document": typed(CompositeDocument, _read_document),
    "compaction": typed(HostedToolResult, _read_compaction),
    "browser_state": typed(BrowserState, _read_browser_state),
    "server_tool_use": typed(HostedToolUse, _read_hosted_call),
    "mcp_tool_use": typed(HostedToolUse, _read_hosted_call),
    "mcp_tool_result": typed(HostedToolResult, _read_hosted_result),
    "advisor_tool_result": typed(HostedToolResult, _read_hosted_result),
    "code_execution_tool_result": typed(HostedToolResult, _read_hosted_result),
    "bash_code_execution_tool_result": typed(HostedToolResult, _read_hosted_result),
    "text_editor_code_execution_tool_result": typed(HostedToolResult, _read_hosted_result),
    "web_search_tool_result": typed(HostedToolResult, _read_hosted_result),
    "web_fetch_tool_result": typed(HostedToolResult, _read_fetched_page),
}
