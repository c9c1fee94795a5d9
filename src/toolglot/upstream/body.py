"""How the body of an answer is read, whichever transport brings it: inflated, in pieces that do not take long to read,
and no more of it than is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Protocol

from toolglot.upstream.inflate import ENCODINGS, PIECE, Inflater
from toolglot.upstream.transport import TransportError, too_large


class Arriving(Protocol):
    """A body on its way."""

    @property
    def host(self) -> str:
        """Who sends it, as errors name it."""
        ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def next(self) -> tuple[bytes, TransportError | None]:
        """The next bytes as they came, none at the end; with a break, those that came before it."""
        ...

    def end(self) -> None:
        """All of it has been read."""
        ...

    def close(self) -> None:
        """The rest is not wanted, unless it was read to its end."""
        ...


async def read(body: Arriving, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in chunks(body):
        size += len(piece)
        if size > limit:
            body.close()
            raise too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)


async def chunks(body: Arriving) -> AsyncGenerator[bytes, None]:
    ended = False
    try:
        inflater = _inflater(body)
        while True:
            piece, broken = await body.next()
            if inflater is None and len(piece) <= PIECE:
                if piece:
                    yield piece
            else:
                for number, part in enumerate(_parts(body, inflater, piece)):
                    if number:  # what came at once may be much to read: other requests go on in between
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


def _inflater(body: Arriving) -> Inflater | None:
    encoding = body.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ENCODINGS:
        raise TransportError("reset", f"{body.host} answered in a compressed form that was not asked for")
    return Inflater()


def _parts(body: Arriving, inflater: Inflater | None, piece: bytes) -> Iterator[bytes]:
    """These bytes inflated, in pieces that do not take long to read."""
    if inflater is None:
        yield from (piece[start : start + PIECE] for start in range(0, len(piece), PIECE))
        return
    try:
        yield from inflater.feed(piece)
    except ValueError:
        raise TransportError("reset", f"{body.host} broke its compressed answer") from None
