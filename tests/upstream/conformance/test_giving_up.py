"""Calls that are given up: at whatever point, the socket is cut, the place is free and nothing is used again."""

from __future__ import annotations

import asyncio

import pytest

from tests.upstream.bad_server import (
    BadServer,
    Gate,
    expect,
    gone,
    head,
    never,
    send,
    send_for_ever,
    stream,
)
from tests.upstream.calls import call
from tests.upstream.conformance.clients import Client, chunks_of, count_held
from tests.upstream.conformance.sockets import no_socket_to
from toolglot.upstream.transport import Reply

BEGUN = [expect(), stream("data: 1\n\n", complete=False)]


def test_closing_a_reply_before_its_end_cuts_the_socket(client: Client) -> None:
    async def test() -> None:
        left = Gate()
        async with BadServer([*BEGUN, gone(left)]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert await anext(answer.chunks()) == b"data: 1\n\n"
            answer.close()
            await left.wait()

    client.run(test)


def test_leaving_the_iteration_cuts_the_socket(client: Client) -> None:
    async def test() -> None:
        left = Gate()
        async with BadServer([*BEGUN, gone(left)]) as server, client.transport() as opened:
            chunks = chunks_of(await opened.send(call(server.url)))
            await anext(chunks)
            await chunks.aclose()
            await left.wait()

    client.run(test)


def test_cancelling_a_call_that_waits_for_its_head_cuts_the_socket(client: Client) -> None:
    async def test() -> None:
        asked, left = Gate(), Gate()
        async with BadServer([expect(seen=asked), gone(left)]) as server, client.transport() as opened:
            task = asyncio.create_task(opened.send(call(server.url)))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await left.wait()

    client.run(test)


def test_cancelling_a_call_that_is_being_written_cuts_the_socket(client: Client) -> None:
    async def test() -> None:
        asked = Gate()
        async with BadServer([expect(body=False, seen=asked), never()]) as server, client.transport() as opened:
            task = asyncio.create_task(opened.send(call(server.url, b"x" * (16 * 1024 * 1024))))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await no_socket_to(server.port)

    client.run(test)


def test_cancelling_the_iteration_cuts_the_socket(client: Client) -> None:
    async def test() -> None:
        began, left = Gate(), Gate()

        async def read(answer: Reply) -> None:
            async for _ in answer.chunks():
                began.open()

        async with BadServer([*BEGUN, gone(left)]) as server, client.transport() as opened:
            task = asyncio.create_task(read(await opened.send(call(server.url))))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await left.wait()

    client.run(test)


def test_what_nobody_reads_stays_with_the_upstream(client: Client) -> None:
    async def test() -> None:
        count = [0]
        script = [expect(), send(head(200)), send_for_ever(b"x" * 65536, count)]
        async with BadServer(script) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            chunks = chunks_of(answer)
            await anext(chunks)
            before = -1
            while count[0] != before:  # until the sockets' own buffers are full
                before = count[0]
                assert count_held(answer) < 512 * 1024
                for _ in range(50):
                    await asyncio.sleep(0)
            await chunks.aclose()

    client.run(test)
