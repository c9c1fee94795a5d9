"""Throttle the messages of a server to a rate that the event loop can sustain.

The SDK's dispatcher starts a task for each notification and request of a server without waiting for it. Messages that
it does not need never reach it. The others pass at a limited rate. Beyond that rate, the server has to wait, because
its pipe or connection is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

import anyio
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolglot.agent.result_envelope import ResultEnvelopes

Incoming: TypeAlias = SessionMessage | Exception

MAX_RATE = 2_000.0
"""Maximum messages per second, and maximum burst."""
_MAX_UNANSWERED = 64
"""Maximum unanswered requests of a server (pings, sampling and the like); further ones are dropped."""
_WANTED_METHODS = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/progress",
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
    }
)


class RateLimiter:
    """Lets a limited number of items pass per second; the rest waits."""

    def __init__(self, rate: float = MAX_RATE) -> None:
        self._rate = rate
        self._left = rate
        self._at = asyncio.get_running_loop().time()

    async def take(self) -> None:
        if self._left < 1:
            await self._refill()
        self._left -= 1

    async def _refill(self) -> None:
        loop = asyncio.get_running_loop()
        while self._left < 1:
            await asyncio.sleep(0.02)
            now = loop.time()
            self._left = min(self._rate, self._left + (now - self._at) * self._rate)
            self._at = now


class PendingRequests:
    """The number of unanswered requests of the server, and our own requests whose results must be wrapped."""

    def __init__(self) -> None:
        self.open = 0
        self.envelopes = ResultEnvelopes()


class ThrottledReader:
    """Reads from a server, without unwanted messages. `on_end` is called at the end of the messages."""

    def __init__(self, stream: ReadStream[Incoming], requests: PendingRequests, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._requests = requests
        self._on_end = on_end
        self._throttle = RateLimiter()

    async def receive(self) -> Incoming:
        while True:
            try:
                item = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._on_end()
                raise
            await self._throttle.take()
            if isinstance(item, SessionMessage) and self._is_wanted(item):
                item.message = self._requests.envelopes.on_received(item.message)
                return item

    def _is_wanted(self, item: SessionMessage) -> bool:
        message = item.message
        if isinstance(message, JSONRPCNotification):
            return message.method in _WANTED_METHODS
        if isinstance(message, JSONRPCRequest):
            if self._requests.open >= _MAX_UNANSWERED:
                return False
            self._requests.open += 1
        return True

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> ThrottledReader:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> ThrottledReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class CountingWriter:
    """Writes to a server; counts answers to its requests, and remembers our own requests."""

    def __init__(self, stream: WriteStream[SessionMessage], requests: PendingRequests) -> None:
        self._stream = stream
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        self._requests.envelopes.on_sent(item.message)
        try:
            await self._stream.send(item)
        finally:
            # Counted only now, because answers pile up if the server does not read.
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                self._requests.open -= 1

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> CountingWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
