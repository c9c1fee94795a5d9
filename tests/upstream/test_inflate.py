"""Compressed bytes in pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest

from toolglot.upstream.inflate import PIECE, Inflater


def squeezed(data: bytes, form: str) -> bytes:
    if form == "gzip":
        return gzip.compress(data)
    packer = zlib.compressobj(wbits=-15 if form == "bare" else 15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("form", ["gzip", "zlib", "bare"])
def test_nothing_is_left_inside_at_the_end_whatever_the_size(form: str) -> None:
    for size in range(PIECE - 300, PIECE + 300):
        packed = squeezed(bytes(size), form)
        inflater = Inflater()
        pieces = list(inflater.feed(packed))
        assert (sum(map(len, pieces)), inflater.ended) == (size, True)
        assert max(map(len, pieces)) <= PIECE
