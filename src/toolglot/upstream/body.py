"""Read the body of an answer from any transport: inflated, in pieces that are quick to process, up to a limit."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Protocol

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


ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
PIECE = 64 * 1024

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"


class Inflater:
    """Decompressor for gzip, and for deflate in both forms that servers send. Gzip may have several members (RFC 1952).
    Other bytes after the end are ignored."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._started = False
        self._behind = b""  # first byte of a possible further member

    @property
    def ended(self) -> bool:
        """Whether the compressed data is complete, or there was none."""
        return self._inflate.eof or not self._started

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the inflated bytes in order, never empty. Raises `ValueError` for invalid data."""
        try:
            yield from self._feed(data)
        except zlib.error:
            raise ValueError("not compressed as declared") from None

    def _feed(self, data: bytes) -> Iterator[bytes]:
        if not self._started:
            self._started = True
            if not data.startswith(_GZIP_MAGIC) and not _is_zlib(data):
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        data, self._behind = self._behind + data, b""
        while not self._inflate.eof or data.startswith(_GZIP_MAGIC):
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
            yield from self._feed_member(data)
            if not self._inflate.eof:
                return
            data = self._inflate.unused_data
        self._behind = data if data == _GZIP_MAGIC[:1] else b""

    def _feed_member(self, data: bytes) -> Iterator[bytes]:
        more = bool(data)
        while more and not self._inflate.eof:
            if piece := self._inflate.decompress(data, PIECE):
                yield piece
            data = self._inflate.unconsumed_tail
            # When a piece is full, zlib may hold more output although it has consumed all input.
            more = bool(data) or len(piece) == PIECE


def _is_zlib(data: bytes) -> bool:
    """Return whether the data has the header of RFC 1950. Some servers send raw deflate data (RFC 1951) instead."""
    return len(data) < 2 or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
