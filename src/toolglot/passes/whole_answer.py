"""Restore non-streamed answers that need no event pass, as nearly all do."""

from __future__ import annotations

from collections.abc import Callable

from toolglot.dialect import Dialect
from toolglot.ir import Block, Opaque, Response, Text, ToolCall
from toolglot.passes import Context
from toolglot.passes.carry import is_stateless
from toolglot.passes.restore import Restorer
from toolglot.passes.settle import is_nameless, is_settled, is_sound


def restore_content(
    response: Response, context: Context, client: Dialect, upstream: Dialect, answer_id: Callable[[], str]
) -> tuple[Block, ...] | None:
    """Return the blocks of this answer as the event passes would; None if the event passes must run. They would also
    keep its stop, and report only lost members. One check of each block covers all passes. `answer_id` returns the
    answer's id.
    """
    if upstream.upstream.answer_pass is not None:  # it may find more blocks
        return None
    owner, slot = upstream.name, upstream.state.slot
    is_foreign = client.name != owner
    restorer: Restorer | None = None
    content = response.content
    for index, block in enumerate(content):
        kind = type(block)
        if (is_foreign and (kind is not Text or block.native)) and not is_stateless(block, owner, slot):
            return None
        if type(block) is ToolCall:
            restorer = restorer or Restorer(context, client.can, whole=True)
            restored = restorer.restore_whole(block, answer_id) if is_sound(block, context.tools) else None
            if restored is None:
                return None
            if restored is not block:
                content = (*content[:index], restored, *content[index + 1 :])
        elif kind is Opaque and is_nameless(block):
            return None
    return content if is_settled(response, has_calls=restorer is not None) else None
