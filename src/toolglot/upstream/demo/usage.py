"""Token usage of a demo answer, with the gateway's own estimate."""

from __future__ import annotations

from collections.abc import Iterable

from toolglot.ir import Block, Message, Request, Response, Thinking, Usage
from toolglot.tokens import estimate


def estimate_usage(request: Request, response: Response) -> Usage:
    return Usage(
        input_tokens=estimate(request),
        output_tokens=_tokens(response.content),
        reasoning_tokens=_tokens(block for block in response.content if isinstance(block, Thinking)),
    )


def _tokens(content: Iterable[Block]) -> int:
    written = tuple(content)
    return estimate(Request(model="", messages=(Message(role="assistant", content=written),))) if written else 0
