"""What a request costs on its connection, in calls of functions and bytes held: the same on every machine.

Each bound is what was counted when it was written (Python 3.11; later versions make fewer calls) and a fifth more. Who
makes the hot path longer than that should know it; who makes it shorter lowers the bound. A generator that is resumed
counts as called, though that takes a fraction of a call's time.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

from bench.gateway_cost import count_calls
from bench.socketless import Socketless, without_sockets

from tests.server.socketless import STREAM_END, STREAM_HEAD, WHOLE, arguments, asked, chunk, framed

FIFTH = 1.2
REQUEST_CALLS = 510
TEXT_CALLS = 1.21
TEXT_CALLS_ALONE = 26
ARGUMENT_CALLS = 1
ARGUMENT_CALLS_ALONE = 29
BYTES_OF_A_STREAM = 14_300


def test_a_plain_request_takes_few_calls() -> None:
    async def work(stage: Socketless) -> int:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()

        request = asked()

        def once() -> None:
            client.data_received(request)
            upstream.data_received(WHOLE)

        for _ in range(5):
            once()
        assert b"It is empty." in seen.taken()
        return count_calls(once)

    assert without_sockets(work) <= REQUEST_CALLS * FIFTH


def _stream(pieces: list[bytes]) -> int:
    """The calls that a stream takes whose first frames have been seen, in these pieces."""

    async def work(stage: Socketless) -> int:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()
        client.data_received(asked(stream=True))
        begin = [chunk(role="assistant", content=""), *(chunk(content=f"word {number}") for number in range(4))]
        upstream.data_received(STREAM_HEAD + framed(begin))
        assert b"word 3" in seen.taken()

        def rest() -> None:
            for piece in pieces:
                upstream.data_received(piece)

        return count_calls(rest)

    return without_sockets(work)


def test_a_text_in_a_burst_takes_hardly_a_call() -> None:
    one, other = (_stream([framed([chunk(content="some words")] * count)]) for count in (100, 300))
    assert (other - one) / 200 <= TEXT_CALLS * FIFTH


def test_a_text_that_comes_alone_takes_few_calls() -> None:
    one, other = (_stream([framed([chunk(content="some words")])] * count) for count in (10, 30))
    assert (other - one) / 20 <= TEXT_CALLS_ALONE * FIFTH


CALL = framed(
    [
        chunk(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "Read", "arguments": ""}}]),
        arguments("{"),
    ]
)


def test_a_piece_of_arguments_in_a_burst_takes_hardly_a_call() -> None:
    one, other = (_stream([CALL + framed([arguments('"a"')] * count)]) for count in (100, 300))
    assert (other - one) / 200 <= ARGUMENT_CALLS * FIFTH


def test_a_piece_of_arguments_that_comes_alone_takes_few_calls() -> None:
    one, other = (_stream([CALL, *[framed([arguments('"a"')])] * count]) for count in (10, 30))
    assert (other - one) / 20 <= ARGUMENT_CALLS_ALONE * FIFTH


def test_an_open_stream_holds_little() -> None:
    """Without the socket's own buffers: a client's connection, an upstream's, and all that is between."""

    async def work(stage: Socketless) -> float:
        async def opened() -> None:
            client, seen = stage.client()
            upstream, sent = await stage.upstream()
            client.data_received(asked(stream=True))
            upstream.data_received(STREAM_HEAD + framed([chunk(role="assistant", content=""), chunk(content="a word")]))
            await asyncio.sleep(0)  # where there are many, what is written waits for the end of the turn
            assert b"a word" in seen.taken()
            sent.taken()
            kept.append((client, upstream))

        kept: list[Any] = []
        for _ in range(10):
            await opened()
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(100):
                await opened()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (after - before) / 100

    assert without_sockets(work) <= BYTES_OF_A_STREAM * FIFTH


def test_a_stream_ends() -> None:
    """So that the counts above are those of a path that works."""

    async def work(stage: Socketless) -> tuple[bytes, bool]:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()
        client.data_received(asked(stream=True))
        last = chunk(content="word").replace(b'"finish_reason":null', b'"finish_reason":"stop"')
        upstream.data_received(STREAM_HEAD + framed([last, b"data: [DONE]\n\n"]) + STREAM_END)
        return seen.taken(), stage.service.in_flight == 0

    written, over = without_sockets(work)
    assert b"message_stop" in written
    assert written.endswith(b"0\r\n\r\n")
    assert over
