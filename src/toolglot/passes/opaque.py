"""Blocks that only the source understands, in the blocks that they amount to (`readable.py`).

This runs before foreign fields are reported, so that members which a reading leaves behind are reported like those of
any other block, and before calls and results are paired, because some readings are calls and results.
"""

from __future__ import annotations

from copy import deepcopy

from toolglot import features
from toolglot.errors import DecodeError
from toolglot.ir import Block, Opaque, Request, Text
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.plan import runs_on
from toolglot.receipt import describe_block
from toolglot.wire.reader import Reader


@runs_on(lambda context: 0 if context.source == context.target else features.OPAQUE, adds=None)
def translate(request: Request, context: Context) -> Request:
    """Replaces opaque blocks that hold something readable."""
    if context.source == context.target or not context.readable:
        return request

    def replaced(block: Block, place: Place) -> tuple[Block, ...]:
        found = _read(block, place, context) if isinstance(block, Opaque) else None
        if not found:
            return (block,)
        form = "text" if isinstance(found[0], Text) else describe_block(found[0])
        context.receipt.note(str(place), describe_block(block), f"only {context.source} has it; it is sent as {form}")
        return found

    return rewrite_blocks(request, replaced, Opaque)


def _read(block: Opaque, place: Place, context: Context) -> tuple[Block, ...] | None:
    if block.dialect != context.source or not isinstance(block.value, dict):
        return None
    # Parts without a type are told apart by their members.
    for kind in (block.value["type"],) if "type" in block.value else block.value:
        read = context.readable.get(kind) if isinstance(kind, str) else None
        if read is not None:
            try:
                return read(Reader(deepcopy(block.value), str(place)))
            except DecodeError:  # of another shape than the API's: it is reported as a whole
                return None
    return None
