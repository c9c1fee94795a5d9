"""What blocks of Messages say that other dialects have no block for: search results, documents made of blocks, hosted
tools and their output, a summary of what was compacted."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.anthropic.blocks import decode_block, decode_blocks
from toolglot.dialects.anthropic.media import text_of
from toolglot.dialects.anthropic.native import NAME, keep, take_cache
from toolglot.dialects.anthropic.wire import read_block, read_document_content
from toolglot.ir import Block, Media, Opaque, Text, Thinking, ToolCall, replace
from toolglot.readable import ReadableTypes, hosted_text
from toolglot.wire import json
from toolglot.wire.reader import Reader
from toolglot.wire.structs import Unknown


def _search_result(block: Reader) -> tuple[Block, ...] | None:
    content = block.peek("content")
    text = text_of(content)
    if text is None:
        return None
    title, source = block.text("title") or "", block.text("source") or ""
    if not isinstance(content, list) or all(item.keys() <= {"type", "text"} for item in content):
        block.take("content")  # else it is reported for what stands beside the texts
    return _read(block, Text(text=f"{title} ({source}):\n{text}"))


def _document(block: Reader) -> tuple[Block, ...] | None:
    """A document of blocks, not all of which are text."""
    source = block.object("source")
    if source is None or source.take("type") != "content":
        return None
    parts = read_document_content(json.encode(source.take("content")), source.at("content"))
    if isinstance(parts, str) or parts is None:
        content: tuple[Block, ...] = (Text(text=parts),) if parts else ()
    elif any(isinstance(part, Unknown) for part in parts):
        return None
    else:
        content = decode_blocks(parts)
    title, context = block.text("title"), block.text("context")
    heading = Text(text="\n".join(part for part in (title and f"{title}:", context) if part))
    return _read(block, *((heading,) if heading.text else ()), *content)


def _hosted_call(block: Reader) -> tuple[Block, ...]:
    name, server = block.text("name"), block.text("server_name")
    block.take("id")
    called = f"call of {name} on {server}" if server else f"call of {name}"
    return _read(block, hosted_text(called, block.take("input") or {}))


def _hosted_result(block: Reader) -> tuple[Block, ...] | None:
    content, kind = block.take("content"), block.peek("type")
    if content is None:
        return None
    block.take("tool_use_id")
    text = content if isinstance(content, str) else text_of(content) if isinstance(content, list) else None
    return _read(block, hosted_text(str(kind), _readable(content, block) if text is None else text))


def _fetched(block: Reader) -> tuple[Block, ...] | None:
    """A page that was fetched is a document."""
    fetched = block.peek("content")
    if not isinstance(fetched, dict) or not isinstance(fetched.get("content"), dict):
        return _hosted_result(block)
    page = decode_block(read_block(json.encode(fetched.pop("content")), block.at("content")))
    found = _document(Reader(page.value, block.at("content"))) if isinstance(page, Opaque) else (page,)
    heading = _hosted_result(block)
    return None if found is None or heading is None else (*heading, *found)


def _readable(value: Any, block: Reader) -> Any:
    """A value without what only the vendor's server can read, which is left to be reported."""
    if isinstance(value, list):
        return [_readable(item, block) for item in value]
    if not isinstance(value, dict):
        return value
    for key in [key for key in value if key.startswith("encrypted_")]:
        block.rest()[f"content.{key}"] = value.pop(key)
    return {key: _readable(item, block) for key, item in value.items()}


def _summary(block: Reader) -> tuple[Block, ...] | None:
    text = block.text("content")
    return _read(block, hosted_text("summary of the conversation so far", text)) if text else None


def _browser(block: Reader) -> tuple[Block, ...]:
    state = {key: block.take(key) for key in ("tabs", "state_changes")}
    return _read(block, hosted_text("browser_state", {key: value for key, value in state.items() if value is not None}))


def _read(block: Reader, *found: Block) -> tuple[Block, ...]:
    """The blocks that were read, with the breakpoint behind the last of them and what is left on the first."""
    block.take("type")
    cache = take_cache(block.rest())
    first, *others = found
    if block.rest() and not isinstance(first, Opaque):
        own = {**first.native.get(NAME, {}), **keep(block.rest())[NAME]}
        first = replace(first, native={**first.native, NAME: own})
    blocks = [first, *others]
    if cache is not None and isinstance(last := blocks[-1], (Text, Media, Thinking, ToolCall)):
        blocks[-1] = replace(last, cache=cache)
    return tuple(blocks)


READABLE: ReadableTypes = {
    "search_result": _search_result,
    "document": _document,
    "compaction": _summary,
    "browser_state": _browser,
    "server_tool_use": _hosted_call,
    "mcp_tool_use": _hosted_call,
    "mcp_tool_result": _hosted_result,
    "advisor_tool_result": _hosted_result,
    "code_execution_tool_result": _hosted_result,
    "bash_code_execution_tool_result": _hosted_result,
    "text_editor_code_execution_tool_result": _hosted_result,
    "web_search_tool_result": _hosted_result,
    "web_fetch_tool_result": _fetched,
}
