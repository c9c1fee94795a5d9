"""Read the body of an answer from any transport: inflated, in pieces that are quick to process, up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Protocol

from toolglot.upstream.inflate import ENCODINGS, PIECE, Inflater
from toolglot.upstream.transport import TransportError, too_large


class IncomingBody(Protocol):
    """A response body that is being received."""

    @property
    def host(self) -> str:
        """Host of the sender, as errors name it."""
        ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def next(self) -> tuple[bytes, TransportError | None]:
        """Return the next bytes as received, empty at the end. If the connection breaks, returns the bytes before the
        break with the error."""
        ...

    def end(self) -> None:
        """Called when the body has been read completely."""
        ...

    def close(self) -> None:
        """Discard the rest, unless the body was read completely."""
        ...


async def read(body: IncomingBody, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in chunks(body):
        size += len(piece)
        if size > limit:
            body.close()
            raise too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)


async def chunks(body: IncomingBody) -> AsyncGenerator[bytes, None]:
    ended = False
    try:
        inflater = _make_inflater(body)
        while True:
            piece, broken = await body.next()
            if inflater is None and len(piece) <= PIECE:
                if piece:
                    yield piece
            else:
                for number, part in enumerate(_inflate(body, inflater, piece)):
                    if number:  # one read may bring much data: let other requests run in between
                        await asyncio.sleep(0)
                    yield part
            if broken is not None:
                raise broken
            if not piece:
                break
        if inflater is not None and not inflater.ended:
            raise TransportError("reset", f"{body.host} broke off its compressed answer")
        ended = True
        body.end()
    finally:
        if not ended:
            body.close()


def _make_inflater(body: IncomingBody) -> Inflater | None:
    encoding = body.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ENCODINGS:
        raise TransportError("reset", f"{body.host} answered with a compression that was not requested")
    return Inflater()


def _inflate(body: IncomingBody, inflater: Inflater | None, piece: bytes) -> Iterator[bytes]:
    """Inflate these bytes in pieces that are quick to process."""
    if inflater is None:
        yield from (piece[start : start + PIECE] for start in range(0, len(piece), PIECE))
        return
    try:
        yield from inflater.feed(piece)
    except ValueError:
        raise TransportError("reset", f"{body.host} broke its compressed answer") from None
