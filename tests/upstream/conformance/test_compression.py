"""Compression that nobody asked for."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.upstream.bad_server import (
    BadServer,
    expect,
    reply,
)
from tests.upstream.calls import call
from tests.upstream.conformance.clients import Client
from toolglot.upstream.body import PIECE


def squeezed(data: bytes, form: str) -> bytes:
    if form == "gzip":
        return gzip.compress(data)
    packer = zlib.compressobj(wbits=-15 if form == "bare" else 15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(("encoding", "form"), [("gzip", "gzip"), ("deflate", "zlib"), ("deflate", "bare")])
def test_a_compressed_answer_is_inflated(client: Client, encoding: str, form: str) -> None:
    async def test() -> None:
        script = [expect(), reply(squeezed(b'{"ok": true}', form), headers={"content-encoding": encoding})]
        async with BadServer(script) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b'{"ok": true}'

    client.run(test)


def test_a_compression_bomb_is_cut_at_the_limit(client: Client) -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    assert client.fails(expect(), reply(bomb, headers={"content-encoding": "gzip"}), limit=1024 * 1024) == "too_large"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"\x0b\x02\x80{}\x03"), ("gzip", b"not compressed"), ("gzip", gzip.compress(b"x" * 1000)[:20])],
    ids=["unknown", "wrong", "cut"],
)
def test_an_answer_that_cannot_be_inflated_is_refused(client: Client, encoding: str, body: bytes) -> None:
    assert client.fails(expect(), reply(body, headers={"content-encoding": encoding})) == "reset"


def test_other_work_goes_on_while_a_small_answer_inflates_to_a_large_one(client: Client) -> None:
    size = 20 * 1024 * 1024

    async def test() -> None:
        script = [expect(), reply(gzip.compress(bytes(size)), headers={"content-encoding": "gzip"})]
        async with BadServer(script) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert await turns_during(answer.read(size)) >= size // PIECE - 10

    client.run(test)


def test_other_work_goes_on_while_a_large_piece_is_read(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(bytes(2 * 1024 * 1024))]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            largest = max([len(piece) async for piece in answer.chunks()])
            assert largest <= PIECE

    client.run(test)


async def turns_during(work: Coroutine[Any, Any, object]) -> int:
    """How often anything else has had its turn while this was done."""
    task, turns = asyncio.create_task(work), 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    await task
    return turns
