"""Estimate token counts that the upstream did not report, if the client's dialect requires them; otherwise omit them.

A server may not count tokens, may report only some counts, or its stream may end between the stop reason and the
counts. A zero would look like a measurement. The receipt says which counts are estimates; logs and metrics omit them.
"""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.events import Finish
from toolglot.ir import COUNTS, Block, Refusal, Request, Response, Text, Thinking, ToolCall, Usage, replace
from toolglot.receipt import Receipt

CHARACTERS_PER_TOKEN = 4
_USUAL_COUNTS = frozenset({"input_tokens", "output_tokens"})
WHY = "the upstream did not report it, and clients need a number"


def is_complete(usage: Usage | None, client: Dialect) -> bool:
    """Return whether the client's usage object can be written from these counts alone."""
    if usage is None:
        return not client.answer.usage_required
    if client.name in usage.native:
        return True  # a usage object of the client's own dialect is written unchanged
    return None not in [getattr(usage, name) for name in client.answer.required_counts]


def finish_with_usage(
    finish: Finish, characters: int, request: Request | None, client: Dialect, receipt: Receipt
) -> Finish:
    """Add missing counts to the end of a stream, estimated from the number of characters in the answer."""
    usage = _without_empty(finish.usage, client)
    if is_complete(usage, client):
        return finish if usage is finish.usage else replace(finish, usage=usage)
    return replace(finish, usage=_fill(usage or Usage(), characters, request, client, receipt))


def with_usage(response: Response, request: Request | None, client: Dialect, receipt: Receipt) -> Response:
    """Add missing counts to a non-streamed answer."""
    usage = response.usage
    has_usual = usage is not None and usage.input_tokens is not None and usage.output_tokens is not None
    if has_usual and client.answer.required_counts <= _USUAL_COUNTS:
        return response
    usage = _without_empty(usage, client)
    if is_complete(usage, client):
        return response if usage is response.usage else replace(response, usage=usage)
    characters = sum(map(_characters_of, response.content))
    return replace(response, usage=_fill(usage or Usage(), characters, request, client, receipt))


def characters_at_start(block: Block) -> int:
    """Count the characters of a block that a stream sends when the block opens, and not in deltas."""
    return len(block.name) if isinstance(block, ToolCall) else 0


def _characters_of(block: Block) -> int:
    """Count the characters of a block as in a stream, so that a streamed and a non-streamed answer get the same
    estimate."""
    match block:
        case Text(text=text) | Refusal(text=text) | Thinking(text=text):
            return len(text)
        case ToolCall(arguments=arguments):
            return characters_at_start(block) + len(arguments)
    return 0


def _without_empty(usage: Usage | None, client: Dialect) -> Usage | None:
    """Return None for another dialect's usage object that has no counts."""
    if usage is None or usage.input_tokens is not None or client.name in usage.native:
        return usage
    return usage if any(getattr(usage, name) is not None for name in COUNTS) else None


def _fill(usage: Usage, characters: int, request: Request | None, client: Dialect, receipt: Receipt) -> Usage:
    """Estimate missing counts that the client requires."""
    if usage.output_tokens is None and "output_tokens" in client.answer.required_counts:
        output = -(-characters // CHARACTERS_PER_TOKEN)
        receipt.note("usage.output_tokens", "an estimate", WHY)
        usage = replace(usage, output_tokens=max(output, usage.reasoning_tokens or 0))
    if usage.input_tokens is None and "input_tokens" in client.answer.required_counts:
        if request is None:
            receipt.note("usage.input_tokens", "0 for an unknown number", WHY)
            return replace(usage, input_tokens=0)
        from toolglot.tokens import estimate

        receipt.note("usage.input_tokens", "an estimate", WHY)
        tokens = estimate(request, image_tokens=client.request.image_tokens)
        cached = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
        usage = replace(usage, input_tokens=max(tokens, cached))
    return usage
