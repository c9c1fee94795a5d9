"""An answer that a coroutine reads: adapts the receiver callbacks to `Reply`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from toolglot.upstream import body
from toolglot.upstream.http_client.in_flight import InFlightRequest
from toolglot.upstream.http_client.limits import READ_BUFFER
from toolglot.upstream.transport import TransportError


class HttpReply:
    """Receives an answer and buffers it until it is read. Beyond `READ_BUFFER` the socket is not read, so at most one
    more read is buffered; the rest stays with the upstream. Silence counts only while a caller waits for the next
    bytes."""

    def __init__(self, host: str) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.sending: InFlightRequest | None = None
        self.host = host
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False
        self._broken: TransportError | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def head(self, sending: InFlightRequest) -> None:
        """Wait for the head of the answer to this request."""
        self.sending = sending
        while not self.status:
            if self._broken is not None:
                raise self._broken
            await self._wait()

    # Called by the connection

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        if self.sending is not None:
            self.sending.watch(False)
        self._wake()

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > READ_BUFFER and self.sending is not None:
            self.sending.pause()
        self._wake()

    def on_end(self) -> None:
        self._over = True
        self._wake()

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        self.on_head(200, headers)
        if body:
            self.on_body(body)
        self.on_end()

    def on_broken(self, error: TransportError) -> None:
        self._broken = error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # Called by the reader

    async def read(self, limit: int) -> bytes:
        return await body.read(self, limit)

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return body.chunks(self)

    def end(self) -> None:
        """The connection has handled the end already."""

    def close(self) -> None:
        if self.sending is not None:
            self.sending.abort()
        if not self._over and self._broken is None:
            self._broken = TransportError("reset", f"{self.host} broke off its answer")

    async def next(self) -> tuple[bytes, TransportError | None]:
        if not self._pieces and not self._over and self._broken is None and self.sending is not None:
            self.sending.watch(True)
            try:
                while not self._pieces and not self._over and self._broken is None:
                    await self._wait()
            finally:
                self.sending.watch(False)
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self.sending is not None:
            self.sending.resume()
        return piece, None if piece else self._broken

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None


def complete_reply(headers: dict[str, str], body: bytes) -> HttpReply:
    """Wrap a successful answer that arrived completely in one read."""
    reply = HttpReply("the upstream")
    reply.on_whole(headers, body)
    return reply


def adopt_reply(sending: InFlightRequest, status: int, headers: dict[str, str], heard: bytes = b"") -> HttpReply:
    """Continue an answer that another receiver has begun, as a reply. `heard` is the part of the body that was
    delivered to that receiver. May be called from inside a callback of the answer."""
    reply = HttpReply(sending.connection.destination.name)
    reply.sending = sending
    sending.receiver = reply
    reply.on_head(status, headers)
    if heard:
        reply.on_body(heard)
    return reply
