"""An answer to be read by a coroutine: the other face of a receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from toolglot.upstream import body
from toolglot.upstream.http_client.rules import READ_BUFFER
from toolglot.upstream.http_client.sending import Sending
from toolglot.upstream.transport import TransportError


class HttpReply:
    """Receives an answer and keeps what came of it until it is read.

    What nobody reads stays with the upstream: beyond `READ_BUFFER` the socket is left alone, so that there is at most
    one read of it more. Silence counts only while somebody waits for the next bytes.
    """

    def __init__(self, host: str) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.sending: Sending | None = None
        self.host = host
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False
        self._broken: TransportError | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def head(self, sending: Sending) -> None:
        """Wait for the head of the answer to this request."""
        self.sending = sending
        while not self.status:
            if self._broken is not None:
                raise self._broken
            await self._wait()

    # As the connection sees it

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

    # As its reader sees it

    async def read(self, limit: int) -> bytes:
        return await body.read(self, limit)

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return body.chunks(self)

    def end(self) -> None:
        """Its connection has seen the end already."""

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


def whole_reply(headers: dict[str, str], body: bytes) -> HttpReply:
    """A successful answer of which all has come at once, as a reply."""
    reply = HttpReply("the upstream")
    reply.on_whole(headers, body)
    return reply


def take_over(sending: Sending, status: int, headers: dict[str, str], heard: bytes = b"") -> HttpReply:
    """The rest of an answer that another receiver has begun, as a reply; `heard` is what that one was told of it.

    To be called while the answer goes on, also from inside a callback of it.
    """
    reply = HttpReply(sending.connection.destination.name)
    reply.sending = sending
    sending.receiver = reply
    reply.on_head(status, headers)
    if heard:
        reply.on_body(heard)
    return reply
