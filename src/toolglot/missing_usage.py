"""Counts that the upstream did not report: an estimate where the client's dialect requires a number, else no number.

A server may not count, or its stream may end before the counts that follow the reason for its end. Some report only a
part. A zero would be a measurement that nobody made. The receipt says what is an estimate; logs and metrics leave it
out.
"""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.events import Finish
from toolglot.ir import COUNTS, Request, Response, Usage, replace
from toolglot.receipt import Receipt
from toolglot.text_frames import text_of

CHARACTERS_PER_TOKEN = 4
WHY = "the upstream did not report it, and clients need a number"


def size_of(body: bytes) -> int:
    """How many characters the inside of a JSON string has."""
    return len(body) if body.isascii() and b"\\" not in body else len(text_of(body))


def is_complete(usage: Usage | None, client: Dialect) -> bool:
    """Can the client's usage object be written from these counts alone?"""
    if usage is None:
        return not client.answer.usage_required
    if client.name in usage.native:
        return True  # its own upstream's object is written as it came
    return all(getattr(usage, name) is not None for name in client.answer.required_counts)


def finish_with_usage(
    finish: Finish, characters: int, request: Request | None, client: Dialect, receipt: Receipt
) -> Finish:
    """The end of a stream whose answer has so many characters, with an estimate where it needs one.

    Without any usage the input stays unknown: the start of the stream has written none, and nothing is made up for it.
    """
    usage = _without_empty(finish.usage, client)
    if is_complete(usage, client):
        return finish if usage is finish.usage else replace(finish, usage=usage)
    if usage is None and not characters:
        return finish
    output = -(-characters // CHARACTERS_PER_TOKEN)
    if usage is None:
        receipt.note("usage.output_tokens", "an estimate", WHY)
        return replace(finish, usage=Usage(output_tokens=output))
    return replace(finish, usage=_fill(usage, output, request, client, receipt))


def with_usage(response: Response, request: Request | None, client: Dialect, receipt: Receipt) -> Response:
    """A whole answer, with an estimate where it needs one."""
    usage = _without_empty(response.usage, client)
    if is_complete(usage, client):
        return response if usage is response.usage else replace(response, usage=usage)
    from toolglot.tokens import TokenEstimate  # few answers need it

    output = TokenEstimate().blocks(response.content)
    return replace(response, usage=_fill(usage or Usage(), output, request, client, receipt))


def _without_empty(usage: Usage | None, client: Dialect) -> Usage | None:
    """None for another dialect's usage object without any count."""
    if usage is None or client.name in usage.native or any(getattr(usage, name) is not None for name in COUNTS):
        return usage
    return None


def _fill(usage: Usage, output: int, request: Request | None, client: Dialect, receipt: Receipt) -> Usage:
    """Estimate the required counts that are missing."""
    if usage.output_tokens is None and "output_tokens" in client.answer.required_counts:
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
