"""The messages of a server at a pace that the event loop can bear.

The SDK's dispatcher starts a task for each notification and each request of a server and does not wait for it. What it
has no use for never reaches it; what is left comes through at a bounded rate, and beyond it the server has to wait:
nobody reads its pipe or its connection meanwhile.
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

from toolglot.agent.envelope import Envelopes

Incoming: TypeAlias = SessionMessage | Exception

RATE = 2_000.0
"""Messages a second, and as many at once."""
_UNANSWERED = 64
"""Requests of a server (for pings, samples and the like) that wait for an answer; further ones are dropped."""
_WANTED = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/progress",
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
    }
)


class Throttle:
    """Lets a bounded number of things pass a second; the rest waits."""

    def __init__(self, rate: float = RATE) -> None:
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


class Requests:
    """How many requests of the server are unanswered, and which of ours have results for an envelope."""

    def __init__(self) -> None:
        self.open = 0
        self.envelopes = Envelopes()


class SiftedReading:
    """What comes from a server, without what nobody wants. `on_end` is called when nothing more will come."""

    def __init__(self, stream: ReadStream[Incoming], requests: Requests, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._requests = requests
        self._on_end = on_end
        self._throttle = Throttle()

    async def receive(self) -> Incoming:
        while True:
            try:
                item = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._on_end()
                raise
            await self._throttle.take()
            if isinstance(item, SessionMessage) and self._passes(item):
                item.message = self._requests.envelopes.received(item.message)
                return item

    def _passes(self, item: SessionMessage) -> bool:
        message = item.message
        if isinstance(message, JSONRPCNotification):
            return message.method in _WANTED
        if isinstance(message, JSONRPCRequest):
            if self._requests.open >= _UNANSWERED:
                return False
            self._requests.open += 1
        return True

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> SiftedReading:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> SiftedReading:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class CountedWriting:
    """What goes to a server; answers to its requests are counted, our own requests are remembered."""

    def __init__(self, stream: WriteStream[SessionMessage], requests: Requests) -> None:
        self._stream = stream
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        self._requests.envelopes.sent(item.message)
        try:
            await self._stream.send(item)
        finally:
            # Only now: a server that does not read lets its answers pile up.
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                self._requests.open -= 1

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> CountedWriting:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
