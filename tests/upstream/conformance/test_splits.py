"""An answer is the same answer wherever the network cuts it, and none where the upstream breaks it off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.bad_server import LAST_CHUNK, BadServer, Peer, Script, Step, chunk, close, expect, head, reset, send
from tests.upstream.calls import call
from tests.upstream.conformance.clients import Client, is_broken
from toolglot.upstream.transport import Transport, TransportError

INTERIM = head(103, {"link": "</style.css>"})
IN_CHUNKS = head(200, {"transfer-encoding": "chunked", "x-kind": "chunks"}) + chunk(b"first") + chunk(b"2nd")
WITH_LENGTH = head(200, {"content-length": "5", "x-kind": "length"}) + b"whole"
ANSWERS = {
    "length": (WITH_LENGTH, b"whole"),
    "chunks": (IN_CHUNKS + LAST_CHUNK, b"first2nd"),
    "trailers": (IN_CHUNKS + b"0\r\nx-sum: 1\r\n\r\n", b"first2nd"),
    "interim": (INTERIM + WITH_LENGTH, b"whole"),
}


def send_apart(pieces: Sequence[bytes]) -> Step:
    """Write these pieces, and let the other side read each before the next: it lives in the same loop."""

    async def step(peer: Peer) -> None:
        for piece in pieces:
            peer.writer.write(piece)
            for _ in range(3):
                await asyncio.sleep(0)

    return step


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(set(places)), len(data)]
    pieces = [data[start:end] for start, end in pairwise(bounds)]
    return [piece for piece in pieces if piece]


async def whole(opened: Transport, url: str) -> bytes:
    answer = await opened.send(call(url))
    try:
        assert answer.status == 200
        return await answer.read(100_000)
    finally:
        answer.close()


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_may_be_cut_at_any_byte(client: Client, name: str) -> None:
    raw, body = ANSWERS[name]

    async def test() -> None:
        script = [step for place in range(len(raw)) for step in (expect(), send_apart(cut(raw, [place])))]
        async with BadServer(script) as server, client.transport() as opened:
            for _ in range(len(raw)):
                assert await whole(opened, server.url) == body
            assert server.connections == 1

    client.run(test)


bodies = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
places = st.lists(st.integers(0, 500), max_size=12)


@given(pieces=bodies, chunked=st.booleans(), interim=st.integers(0, 3), trailers=st.integers(0, 2), places=places)
def test_any_answer_may_be_cut_anywhere(
    client: Client, pieces: list[bytes], chunked: bool, interim: int, trailers: int, places: list[int]
) -> None:
    body = b"".join(pieces)
    raw = INTERIM * interim
    if chunked:
        ending = b"0\r\n" + b"x-sum: 1\r\n" * trailers + b"\r\n"
        raw += head(200, {"transfer-encoding": "chunked"}) + b"".join(map(chunk, pieces)) + ending
    else:
        raw += head(200, {"content-length": str(len(body))}) + body

    async def test() -> None:
        again: Script = [expect(), send_apart(cut(raw, places))] * 2
        async with BadServer(again) as server, client.transport() as opened:
            assert await whole(opened, server.url) == body
            assert await whole(opened, server.url) == body
            assert server.connections == 1

    client.run(test)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("ending", [close, reset])
def test_an_answer_that_breaks_off_at_any_byte_is_a_reset(
    client: Client, name: str, ending: Callable[[], Step]
) -> None:
    raw, body = ANSWERS[name]

    async def test() -> None:
        scripts = [
            [expect(), send_apart(cut(raw, [place])[:1] if place else []), ending()] for place in range(len(raw))
        ]
        async with BadServer(*scripts) as server, client.transport() as opened:
            for _ in range(len(raw)):
                came = b""
                with pytest.raises(TransportError) as caught:
                    async for piece in (await opened.send(call(server.url))).chunks():
                        came += piece
                assert caught.value.failure == "reset"
                assert body.startswith(came)
            assert server.connections == len(raw)

    client.run(test)


def test_what_came_before_a_break_is_told_also_when_it_came_with_the_head(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), send(IN_CHUNKS), close()]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            while not is_broken(answer):
                await asyncio.sleep(0)
            came = []
            with pytest.raises(TransportError):
                async for piece in answer.chunks():
                    came.append(piece)  # noqa: PERF401 - what came before the break counts
            assert b"".join(came) == b"first2nd"

    client.run(test)
