"""Compressed bytes inflated in pieces no larger than `PIECE`: how far an answer may grow is for its reader to say."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
PIECE = 64 * 1024

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"


class Inflater:
    """For gzip, and for deflate in either of the two forms that servers send under that name.

    Gzip may consist of several members, one behind another (RFC 1952). Other bytes behind its end are ignored.
    """

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._started = False
        self._behind = b""  # the first byte of what may be another member

    @property
    def ended(self) -> bool:
        """The compressed data is complete, or there was none at all."""
        return self._inflate.eof or not self._started

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes give, in order, no piece empty. Raises `ValueError` for what is not compressed so."""
        try:
            yield from self._feed(data)
        except zlib.error:
            raise ValueError("not compressed as it says") from None

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
            # A full piece may leave output waiting inside zlib although it has read all of its input.
            more = bool(data) or len(piece) == PIECE


def _is_zlib(data: bytes) -> bool:
    """Has it the header of RFC 1950? Some servers send bare deflate data (RFC 1951) instead."""
    return len(data) < 2 or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
