"""Replay a recorded answer: its status, headers, bytes, and its failure if it broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import get_args

from toolglot.config.schema import ReplaySpeed
from toolglot.recordings.answer_label import AnswerLabel
from toolglot.recordings.format import UNREAD
from toolglot.recordings.read import Attempt
from toolglot.upstream.replay.labels import label_headers
from toolglot.upstream.transport import TransportError, TransportFailure

Speed = ReplaySpeed
"""Speed of a replay: without delays, or as recorded."""

_FAILURES: tuple[TransportFailure, ...] = get_args(TransportFailure)

ENCODING_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"})
"""Headers that describe the encoding of the bytes, which are recorded decoded."""


def parse_failure(error: str) -> TransportError:
    """Parse a recorded failure: `reset: why`, or only a message."""
    kind, _, message = error.partition(": ")
    known = next((failure for failure in _FAILURES if failure == kind), None)
    return TransportError(known or "reset", message if known and message else error)


class RecordedReply:
    """The head of a recorded answer, with access to its body."""

    def __init__(self, attempt: Attempt, label: AnswerLabel, speed: Speed = "none") -> None:
        assert attempt.response is not None
        self.status = attempt.response.status
        settings = attempt.request.settings
        told = {name.lower(): value for name, value in attempt.response.headers.items()}
        self.headers = {
            **{name: value for name, value in told.items() if name not in ENCODING_HEADERS},
            **label_headers(label, attempt.request.model, "" if settings is None else settings.issuer),
        }
        self._attempt = attempt
        self._clock = ReplayClock(attempt.response.at, speed)

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
        if end.error is not None and end.error != UNREAD:  # for an unread answer, the part that was read is replayed
            raise parse_failure(end.error)

    def close(self) -> None:
        self._clock.stop()


class SyntheticReply:
    """A reply that was not recorded: a model list, or the error for a missing recording."""

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


class ReplayClock:
    """Waits until a recorded time, relative to another one; does not wait unless the recorded speed is used."""

    def __init__(self, since: float, speed: Speed) -> None:
        self._since = since
        self._speed = speed
        self._began = asyncio.get_running_loop().time()
        self._stopped = asyncio.Event()

    async def until(self, at: float) -> None:
        left = self._began + at - self._since - asyncio.get_running_loop().time()
        if self._speed == "none" or left <= 0:
            await asyncio.sleep(0)  # lets other tasks run and notices a cancellation
        else:
            try:
                await asyncio.wait_for(self._stopped.wait(), left)
            except TimeoutError:
                return
        if self._stopped.is_set():
            raise TransportError("reset", "the recorded answer was closed")

    def stop(self) -> None:
        self._stopped.set()
