"""An answer that has begun, piece by piece until its end: each piece translated as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from toolglot.server.attempts import Attempts
from toolglot.server.beginning import Answer
from toolglot.server.outcomes import broken_off
from toolglot.server.record import Record
from toolglot.upstream.transport import TransportError

DRAIN_SECONDS = 1.0
"""How long the rest of an upstream's stream is waited for once the answer is whole, so that its connection lives on."""

TRAILING_SECONDS = 5.0
"""How long an upstream that has said why it stops may be silent. Usage may follow, and does so at once; a mark of the
end need not come, and Gemini has none."""


async def pieces(answer: Answer, attempts: Attempts, record: Record) -> AsyncGenerator[bytes, None]:
    """The client's bytes, from the first to the last. A fault of the upstream is among them; the record has it."""
    translation = answer.translation
    assert translation is not None
    assert answer.chunks is not None
    if _has_ended(answer):
        await attempts.keep(answer)
    yield answer.first
    try:
        while not translation.ended:
            if translation.wants_again is not None:
                await attempts.go_on(answer)
            chunk = await (_trailing(answer.chunks) if translation.settled else anext(answer.chunks, None))
            out = translation.close() if chunk is None else await answer.feed(translation, chunk)
            if _has_ended(answer):
                await attempts.keep(answer)
            if out:
                yield out
            if chunk is None and translation.wants_again is None:
                break
    except TransportError as failure:
        yield broken_off(translation, record.upstream or "", failure)
        attempts.over(failure if translation.fault is not None else None)
    else:
        attempts.over(None)
    if (fault := translation.fault) is not None:
        record.error, record.message = fault.kind, fault.message


def _has_ended(answer: Answer) -> bool:
    return answer.translation is not None and answer.translation.ended


async def drain(answer: Answer) -> None:
    """Read what an upstream still sends behind an answer that is whole."""
    assert answer.chunks is not None
    assert answer.translation is not None
    with suppress(TransportError, TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while answer.translation.fault is None and await anext(answer.chunks, None) is not None:
                pass


async def _trailing(chunks: AsyncIterator[bytes]) -> bytes | None:
    """The next piece of a stream whose end has been told; None when there is none."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TRAILING_SECONDS):
            return await anext(chunks, None)
    return None
