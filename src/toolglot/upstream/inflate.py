"""Inflate compressed bytes in pieces of at most `PIECE` bytes. The reader limits the total size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

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
        """Tell whether the compressed data is complete, or there was none."""
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
    """Tell whether the data has the header of RFC 1950. Some servers send raw deflate data (RFC 1951) instead."""
    return len(data) < 2 or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
