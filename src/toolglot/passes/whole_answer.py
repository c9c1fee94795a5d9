"""Detect non-streamed answers that the event passes would leave unchanged, which are nearly all."""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.ir import Opaque, Response, Text, ToolCall
from toolglot.passes import Context
from toolglot.passes.carry import is_stateless
from toolglot.passes.ids import UsedIds
from toolglot.passes.restore import is_restored
from toolglot.passes.settle import is_nameless, is_settled, is_sound


def keeps_content(response: Response, context: Context, client: Dialect, upstream: Dialect) -> bool:
    """Tell whether the event passes would keep the blocks and the stop of this answer, and report only lost members.
    One check of each block covers all passes.
    """
    if upstream.upstream.answer_pass is not None:  # it may find more blocks
        return False
    owner, slot = upstream.name, upstream.state.slot
    is_foreign = client.name != owner
    used: UsedIds | None = None
    for block in response.content:
        kind = type(block)
        if kind is ToolCall:
            assert isinstance(block, ToolCall)
            used = UsedIds(context.call_ids, client.can.ids) if used is None else used
            if not is_sound(block, context.tools) or not is_restored(block, context, client.can, used):
                return False
            used.add(block.id)
        elif kind is Opaque and is_nameless(block):
            return False
        if (is_foreign and (kind is not Text or block.native)) and not is_stateless(block, owner, slot):
            return False
    return is_settled(response, has_calls=used is not None)
