"""What a tool returned, as the model is given it: never more than it was allowed to say."""

from __future__ import annotations

from toolglot.errors import DecodeError
from toolglot.ir import Block, Json, Media, Text, ToolCall, ToolResult, replace
from toolglot.tools.mcp import read_result

MEDIA_BYTES = 8_000_000
"""Characters of one image, sound or file, as base64. Models' APIs take about as much."""


def failed(call: ToolCall, why: str) -> ToolResult:
    """The result of a call that was not run, or did not end well: the model learns why."""
    return ToolResult(call_id=call.id, name=call.name, content=(Text(text=why),), is_error=True)


def result_of(value: Json, call: ToolCall, limit: int) -> ToolResult:
    """What `tools/call` returned, cut to `limit` bytes of text."""
    try:
        result = read_result(value, call.id, call.name)
    except DecodeError as error:
        return failed(call, f"The tool's server answered with something that is no result: {error}")
    return bounded(replace(result, content=tuple(map(_plain, result.content)), native={}), limit)


def _plain(block: Block) -> Block:
    """A block without what a server says of it to hosts, and to no model."""
    return replace(block, native={}) if isinstance(block, Text | Media) else block


def bounded(result: ToolResult, limit: int) -> ToolResult:
    """The same if it is no longer than that; else its beginning, and a word about what is missing."""
    left, content = limit, list[Block]()
    for block in result.content:
        if isinstance(block, Text) or (isinstance(block, Media) and block.source.kind == "text"):
            text = block.text if isinstance(block, Text) else block.source.data
            size = len(text.encode("utf-8", "surrogatepass"))
            content.append(block if size <= left else Text(text=cut(text, left, size)))
            left = max(left - size, 0)
        elif isinstance(block, Media) and len(block.source.data) > MEDIA_BYTES:
            content.append(
                Text(text=f"[{block.kind} of {len(block.source.data)} characters left out: it is too large]")
            )
        else:
            content.append(block)
    return replace(result, content=tuple(content))


def cut(text: str, limit: int, size: int) -> str:
    kept = text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut off: {len(kept.encode('utf-8'))} of {size} bytes]"
