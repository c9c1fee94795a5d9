"""Answers without usage: an estimate for clients whose dialect requires a number, and no number for all others.

A server may not count, or its stream may end before the counts that follow the reason for its end. A zero would be a
measurement that nobody made. The receipt says what is an estimate; logs and metrics leave it out.
"""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.events import Finish
from toolglot.ir import Request, Response, Usage, replace
from toolglot.receipt import Receipt
from toolglot.text_frames import text_of

CHARACTERS_PER_TOKEN = 4
WHY = "the upstream told no usage, and clients need a number"


def size_of(body: bytes) -> int:
    """How many characters the inside of a JSON string has."""
    return len(body) if body.isascii() and b"\\" not in body else len(text_of(body))


def finish_with_usage(finish: Finish, characters: int, client: Dialect, receipt: Receipt) -> Finish:
    """The end of a stream whose answer has so many characters, with an estimate where it needs one. Of the input the
    stream has told nothing at its beginning, and nothing is made up for it."""
    if finish.usage is not None or not client.answer.usage_required or not characters:
        return finish
    receipt.note("usage.output_tokens", "an estimate", WHY)
    return replace(finish, usage=Usage(output_tokens=-(-characters // CHARACTERS_PER_TOKEN)))


def with_usage(response: Response, request: Request | None, client: Dialect, receipt: Receipt) -> Response:
    """A whole answer, with an estimate where it needs one."""
    if response.usage is not None or not client.answer.usage_required:
        return response
    from toolglot.tokens import Estimate, estimate  # few answers need it

    counted = Usage(output_tokens=Estimate().blocks(response.content))
    receipt.note("usage.output_tokens", "an estimate", WHY)
    if request is not None:
        counted = replace(counted, input_tokens=estimate(request, image_tokens=client.request.image_tokens))
        receipt.note("usage.input_tokens", "an estimate", WHY)
    return replace(response, usage=counted)
