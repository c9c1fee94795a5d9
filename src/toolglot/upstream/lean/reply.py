"""An answer to be read by a coroutine: the other face of a receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping

from toolglot.upstream.http_rules import READ_BUFFER
from toolglot.upstream.inflate import ENCODINGS, PIECE, Inflater
from toolglot.upstream.lean.sending import Sending
from toolglot.upstream.transport import TransportError


class LeanReply:
    """Receives an answer and keeps what came of it until it is read.

    What nobody reads stays with the upstream: beyond `READ_BUFFER` the socket is left alone, so that there is at most
    one read of it more. Silence counts only while somebody waits for the next bytes.
    """

    def __init__(self, host: str) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.sending: Sending | None = None
        self._host = host
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False
        self._ended = False
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

    def on_broken(self, error: TransportError) -> None:
        self._broken = error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # As its reader sees it

    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > limit:
                self.close()
                raise TransportError("too_large", f"{self._host} answered with more than {limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            inflater = self._inflater()
            while piece := await self._next():
                for number, part in enumerate(self._parts(inflater, piece)):
                    if number:  # what came at once may be much to read: other requests go on in between
                        await asyncio.sleep(0)
                    yield part
            if self._broken is not None:
                raise self._broken
            if inflater is not None and not inflater.ended:
                raise TransportError("reset", f"{self._host} broke off its compressed answer")
            self._ended = True
        finally:
            if not self._ended:
                self.close()

    def close(self) -> None:
        if self.sending is not None:
            self.sending.abort()
        if not self._over and self._broken is None:
            self._broken = TransportError("reset", f"{self._host} broke off its answer")

    async def _next(self) -> bytes:
        """The next bytes as they came, none at the end or at a break."""
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
        return piece

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _parts(self, inflater: Inflater | None, piece: bytes) -> Iterator[bytes]:
        """These bytes inflated, in pieces that do not take long to read."""
        if inflater is None:
            if len(piece) <= PIECE:
                yield piece
            else:
                yield from (piece[start : start + PIECE] for start in range(0, len(piece), PIECE))
            return
        try:
            yield from inflater.feed(piece)
        except ValueError:
            raise TransportError("reset", f"{self._host} broke its compressed answer") from None

    def _inflater(self) -> Inflater | None:
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return None
        if encoding not in ENCODINGS:
            raise TransportError("reset", f"{self._host} answered in a compressed form that was not asked for")
        return Inflater()


def take_over(sending: Sending, status: int, headers: dict[str, str], body: bytes = b"") -> LeanReply:
    """The rest of an answer that another receiver has begun, as a reply; `body` is what that one was told of it.

    To be called while the answer goes on, also from inside a callback of it.
    """
    reply = LeanReply(sending.connection.destination.name)
    reply.sending = sending
    sending.receiver = reply
    reply.on_head(status, headers)
    if body:
        reply.on_body(body)
    return reply
