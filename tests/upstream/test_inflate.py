"""Compressed bytes in pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest

from toolglot.upstream.body import PIECE, Inflater


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


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_gzip_of_several_members_is_read_to_its_end(step: int) -> None:
    packed = gzip.compress(b"data: 1\n\n") + gzip.compress(b"") + gzip.compress(b"data: 2\n\n")
    inflater = Inflater()
    pieces = [piece for at in range(0, len(packed), step) for piece in inflater.feed(packed[at : at + step])]
    assert (b"".join(pieces), inflater.ended) == (b"data: 1\n\ndata: 2\n\n", True)


def test_a_member_that_breaks_off_is_no_end() -> None:
    packed = gzip.compress(b"data: 1\n\n") + gzip.compress(b"data: 2\n\n")[:-4]
    inflater = Inflater()
    assert b"".join(inflater.feed(packed)) == b"data: 1\n\ndata: 2\n\n"
    assert not inflater.ended


def test_other_bytes_behind_the_end_are_ignored() -> None:
    inflater = Inflater()
    assert b"".join(inflater.feed(gzip.compress(b"data: 1\n\n") + bytes(8))) == b"data: 1\n\n"
    assert inflater.ended
