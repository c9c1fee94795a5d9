"""Compression that nobody asked for."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tests.upstream.bad_server import (
    BadServer,
    expect,
    reply,
)
from tests.upstream.calls import call, fails, run, transport


def squeezed(data: bytes, form: str) -> bytes:
    if form == "gzip":
        return gzip.compress(data)
    packer = zlib.compressobj(wbits=-15 if form == "bare" else 15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(("encoding", "form"), [("gzip", "gzip"), ("deflate", "zlib"), ("deflate", "bare")])
def test_a_compressed_answer_is_inflated(encoding: str, form: str) -> None:
    async def test() -> None:
        script = [expect(), reply(squeezed(b'{"ok": true}', form), headers={"content-encoding": encoding})]
        async with BadServer(script) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b'{"ok": true}'

    run(test)


def test_a_compression_bomb_is_cut_at_the_limit() -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    assert fails(expect(), reply(bomb, headers={"content-encoding": "gzip"}), limit=1024 * 1024) == "too_large"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"\x0b\x02\x80{}\x03"), ("gzip", b"not compressed"), ("gzip", gzip.compress(b"x" * 1000)[:20])],
    ids=["unknown", "wrong", "cut"],
)
def test_an_answer_that_cannot_be_inflated_is_refused(encoding: str, body: bytes) -> None:
    assert fails(expect(), reply(body, headers={"content-encoding": encoding})) == "reset"
