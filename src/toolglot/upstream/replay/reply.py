"""A recorded reply, given again: its status, its headers, its bytes, and how it broke off if it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import get_args

from toolglot.config.schema import ReplaySpeed
from toolglot.recordings.format import UNREAD
from toolglot.recordings.label import Label
from toolglot.recordings.read import Attempt
from toolglot.upstream.replay.labels import headers_of
from toolglot.upstream.transport import TransportError, TransportFailure

Speed = ReplaySpeed
"""At once, or as fast as it was recorded."""

_FAILURES: tuple[TransportFailure, ...] = get_args(TransportFailure)

ABOUT_BYTES = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"})
"""Headers that tell how the bytes came, which are recorded as they were read."""


def failure_of(error: str) -> TransportError:
    """What was recorded as `reset: why`, or in words alone."""
    kind, _, message = error.partition(": ")
    known = next((failure for failure in _FAILURES if failure == kind), None)
    return TransportError(known or "reset", message if known and message else error)


class RecordedReply:
    """The head of a recorded answer, and the way to its body."""

    def __init__(self, attempt: Attempt, label: Label, speed: Speed = "none") -> None:
        assert attempt.response is not None
        self.status = attempt.response.status
        settings = attempt.request.settings
        told = {name.lower(): value for name, value in attempt.response.headers.items()}
        self.headers = {
            **{name: value for name, value in told.items() if name not in ABOUT_BYTES},
            **headers_of(label, attempt.request.model, "" if settings is None else settings.issuer),
        }
        self._attempt = attempt
        self._clock = Clock(attempt.response.at, speed)

    async def read(self, limit: int) -> bytes:
        body = bytearray()
        async for piece in self.chunks():
            body += piece
            if len(body) > limit:
                raise TransportError("too_large", f"the recorded answer has more than {limit} bytes")
        return bytes(body)

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._attempt.pieces:
            await self._clock.until(piece.at)
            if data := piece.data:
                yield data
        end = self._attempt.end
        if end is None:
            raise TransportError("reset", "the recording ends before the answer does")
        await self._clock.until(end.at)
        if end.error is not None and end.error != UNREAD:  # of that, what was read is given again
            raise failure_of(end.error)

    def close(self) -> None:
        self._clock.stop()


class WrittenReply:
    """A reply that was not recorded: the list of models, or that there is no recording."""

    def __init__(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self._body = body

    async def read(self, limit: int) -> bytes:
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    def close(self) -> None:
        """There is nothing to close."""


class Clock:
    """Waits until a moment of the recording, counted from another one; at once when that is the speed."""

    def __init__(self, since: float, speed: Speed) -> None:
        self._since = since
        self._speed = speed
        self._began = asyncio.get_running_loop().time()
        self._stopped = asyncio.Event()

    async def until(self, at: float) -> None:
        left = self._began + at - self._since - asyncio.get_running_loop().time()
        if self._speed == "none" or left <= 0:
            await asyncio.sleep(0)  # others have their turn, and a cancellation is noticed
        else:
            try:
                await asyncio.wait_for(self._stopped.wait(), left)
            except TimeoutError:
                return
        if self._stopped.is_set():
            raise TransportError("reset", "the recorded answer was closed")

    def stop(self) -> None:
        self._stopped.set()
