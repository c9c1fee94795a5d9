"""Nothing grows: a client that reads slowly holds its upstream back, and no stream, line or bomb is held in memory.

The numbers are those of `tests/server/fault_cases.py`. Gateway, upstream and client of these tests live in one process,
so what Python has allocated is the most that all three of them need together.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from tests.lint.streams import SOUND
from tests.server.client_errors import error_told
from tests.server.gateway import CLIENTS, LIMITS, Talk, at, gateway
from tests.upstream.bad_server import BadServer, Gate, Peer, Step, chunk, expect, gone, head, pause, reply, send
from toolglot.dialects import find

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
STREAM_HEAD = head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
FIRST, FRAME = (part + b"\n\n" for part in SOUND["openai_chat"].split(b"\n\n")[:2])
PIECE = chunk(FRAME * 200)
MEGABYTE = 2**20
KERNEL = 24 * MEGABYTE
"""More than the kernel ever holds between three sockets."""
STUCK = 0.3
"""Seconds in which not a byte goes out: the other side has stopped reading."""


def send_until_stuck(stuck: Gate, sent: list[int]) -> Step:
    """Write until the peer takes no more."""

    async def step(peer: Peer) -> None:
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        peer.writer.transport.set_write_buffer_limits(high=0)
        try:
            while True:
                peer.writer.write(PIECE)
                async with asyncio.timeout(STUCK):
                    await peer.writer.drain()
                sent[0] += len(PIECE)
        except TimeoutError:
            stuck.open()

    return step


@contextmanager
def growth(most: int) -> Iterator[None]:
    """What the block allocates at one time may be this much."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < most
    finally:
        tracemalloc.stop()


def read(talk: Talk, size: int) -> None:
    while size > 0:
        piece = talk.head.read1(65536)
        assert piece
        size -= len(piece)


@EVERY_CLIENT
def test_35_a_client_that_does_not_read_stops_its_upstream_and_costs_no_memory(client: str) -> None:
    stuck, again, left, sent = Gate(), Gate(), Gate(), [0]
    script = [expect(), send(STREAM_HEAD, chunk(FIRST)), send_until_stuck(stuck, sent), pause(again), gone(left)]
    limits = replace(LIMITS, response=2**40)
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        for dialect in (client, "openai_chat"):
            find(dialect)  # modules that are imported for it are not what the client costs
        with growth(4 * MEGABYTE):
            talk = running.begin(client, stream=True, receive_buffer=4096)
            assert talk.head.status == 200
            stuck.wait_blocking()
        assert sent[0] < KERNEL
        read(talk, sent[0] // 4)  # what was held back comes when the client reads on
        again.open()
        talk.leave()
        left.wait_blocking()
        assert running.record().cancelled


@EVERY_CLIENT
def test_35_a_client_that_has_stopped_reading_for_good_is_cut_off(client: str) -> None:
    left = Gate()

    async def send_until_cut(peer: Peer) -> None:
        try:
            while True:
                peer.writer.write(PIECE)
                await peer.writer.drain()
        except ConnectionError:
            left.open()

    script = [expect(), send(STREAM_HEAD, chunk(FIRST)), send_until_cut]
    limits = replace(LIMITS, response=2**40, write_idle=0.3)
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        talk = running.begin(client, stream=True, receive_buffer=4096)
        assert talk.head.status == 200
        left.wait_blocking()
        record = running.record()
        assert record.cancelled
        assert running.service.in_flight == 0


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", ["translated", "forwarded"])
def test_34_a_stream_that_goes_on_and_on_costs_no_memory(client: str, upstream: str) -> None:
    frames = {
        "openai_chat": (FIRST, FRAME),
        "anthropic": _split("anthropic", b"text_delta"),
        "openai_responses": _split("openai_responses", b"response.output_text.delta"),
        "gemini": _split("gemini", b"Hello"),
        "ollama": (SOUND["ollama"].splitlines(keepends=True)[0],) * 2,
    }
    dialect = client if upstream == "forwarded" else "openai_chat" if client != "openai_chat" else "anthropic"
    first, frame = frames[dialect]

    async def flood(peer: Peer) -> None:
        while True:
            peer.writer.write(chunk(frame * 200))
            await peer.writer.drain()

    script = [expect(), send(STREAM_HEAD, chunk(first)), flood]
    limits = replace(LIMITS, response=2**40)
    with BadServer(script) as server, gateway(at(dialect, server.url), limits=limits) as running:
        talk = running.begin(client, stream=True)
        read(talk, MEGABYTE)
        with growth(5 * MEGABYTE):
            read(talk, 8 * MEGABYTE)


def _split(dialect: str, text: bytes) -> tuple[bytes, bytes]:
    """A stream up to its first piece of text, and that piece."""
    sound = SOUND[dialect]
    start = sound.rindex(b"\n\n", 0, sound.index(text)) + 2 if b"\n\n" in sound[: sound.index(text)] else 0
    end = sound.index(b"\n\n", sound.index(text)) + 2
    return sound[:start] or b": \n\n", sound[start:end]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_37_a_bomb_is_never_unpacked_whole(streams: bool) -> None:
    bomb = gzip.compress(b'{"a":"' + b"a" * (30 * MEGABYTE))
    limits = replace(LIMITS, response=MEGABYTE)
    with (
        BadServer([expect(), reply(bomb, headers={"content-encoding": "gzip"})]) as server,
        gateway(at("openai_chat", server.url), limits=limits) as running,
        growth(6 * MEGABYTE),
    ):
        error_told("openai_chat", running.ask("openai_chat", stream=streams))
