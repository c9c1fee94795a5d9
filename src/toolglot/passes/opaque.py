"""Replace blocks that only the source understands with equivalent common blocks (`readable.py`).

This runs before foreign fields are reported, so that members without an equivalent are reported like those of any other
block. It also runs before calls and results are paired, because some of the new blocks are calls and results.
"""

from __future__ import annotations

from toolglot import features
from toolglot.errors import DecodeError
from toolglot.ir import Block, Opaque, Request, Text, ToolCall, ToolResult, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.plan import runs_on
from toolglot.receipt import describe_block


@runs_on(lambda context: 0 if context.source == context.target else features.OPAQUE, adds=None, keeps_messages=True)
def translate(request: Request, context: Context) -> Request:
    """Replace opaque blocks that have readable content."""
    if context.source == context.target or not context.readable:
        return request

    calls: dict[str, str] = {}  # item id -> call id

    def replace_block(block: Block, place: Place) -> tuple[Block, ...]:
        found = _read(block, context) if isinstance(block, Opaque) else None
        if not found:
            return (block,)
        form = "text" if isinstance(found[0], Text) else describe_block(found[0])
        context.receipt.note(str(place), describe_block(block), f"only {context.source} has it; it is sent as {form}")
        return tuple(_with_call_id(each, calls, context.source) for each in found)

    return rewrite_blocks(request, replace_block, Opaque)


def _with_call_id(block: Block, calls: dict[str, str], source: str) -> Block:
    """Set the call id of a result that names its call by the id of the call's item, as a local shell's result may."""
    if isinstance(block, ToolCall) and isinstance(item := native_of(block, source).get("id"), str):
        calls[item] = block.id
    if isinstance(block, ToolResult) and block.call_id in calls:
        return replace(block, call_id=calls[block.call_id])
    return block


def _read(block: Opaque, context: Context) -> tuple[Block, ...] | None:
    if block.dialect != context.source or not isinstance(block.value, dict):
        return None
    # Parts without a type are distinguished by their members.
    for kind in (block.value["type"],) if "type" in block.value else block.value:
        read = context.readable.get(kind) if isinstance(kind, str) else None
        if read is not None:
            try:
                return read(dict(block.value))
            except DecodeError:  # not the API's shape: the whole block is reported instead
                return None
    return None
