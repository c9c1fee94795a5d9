"""Connections that are used again, and those that must not be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from tests.upstream.bad_server import (
    BadServer,
    Gate,
    close,
    expect,
    gone,
    head,
    never,
    pause,
    reply,
    send,
    tell,
)
from tests.upstream.calls import call, failure
from tests.upstream.conformance.clients import Client, count_idle, count_waiting
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.transport import TransportError


def test_a_reply_that_was_read_to_its_end_gives_its_connection_back(client: Client) -> None:
    again = [expect(), reply(b"{}", keep_alive=True)]

    async def test() -> None:
        async with BadServer([*again, *again, *again]) as server, client.transport() as opened:
            for _ in range(3):
                answer = await opened.send(call(server.url))
                await answer.read(100)
                answer.close()
            assert (server.connections, len(server.requests)) == (1, 3)

    client.run(test)


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(client: Client) -> None:
    async def test() -> None:
        script = [expect(), reply(b"{}", keep_alive=True), close()]
        async with BadServer(script) as server, client.transport() as opened:
            for count in (1, 2):
                answer = await opened.send(call(server.url))
                await answer.read(100)
                answer.close()
                while count_idle(opened):  # until the server's close has come
                    await asyncio.sleep(0)
                assert server.connections == count

    client.run(test)


def test_words_on_an_idle_connection_are_not_taken_for_the_next_answer(client: Client) -> None:
    """Some servers say 408 on a connection that nobody uses before they close it."""

    async def test() -> None:
        spoken, first = Gate(), Gate()
        unasked = head(408, {"content-length": "0"})
        script = [expect(), reply(b"1", keep_alive=True), pause(first), send(unasked), tell(spoken), expect(), never()]
        async with BadServer(script, [expect(), reply(b"2")]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(1) == b"1"
            answer.close()
            first.open()
            await spoken.wait()
            for _ in range(20):  # the bytes are on the loopback interface: let the loop read them
                await asyncio.sleep(0)
            answer = await opened.send(call(server.url))
            assert await answer.read(1) == b"2"

    client.run(test)


def test_more_bytes_than_promised_do_not_spoil_the_next_answer(client: Client) -> None:
    async def test() -> None:
        script = [expect(), send(head(200, {"content-length": "2"}) + b"{}" + head(200) + b"forged"), never()]
        async with BadServer(script, [expect(), reply(b"true")]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            try:
                assert await answer.read(100) == b"{}"
            except TransportError as error:  # the surplus came with the head and was seen first
                assert error.failure == "reset"
            answer.close()
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b"true"

    client.run(test)


def test_many_calls_at_once_share_the_transport(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as server, client.transport() as opened:

            async def one() -> bytes:
                answer = await opened.send(call(server.url))
                return await answer.read(10)

            answers: Iterable[bytes] = await asyncio.gather(*(one() for _ in range(25)))
            assert list(answers) == [b"{}"] * 25

    client.run(test)


def test_waiting_for_a_free_connection_is_bounded(client: Client) -> None:
    async def test() -> None:
        opened = HttpTransport(1, {})
        async with BadServer([expect(), send(head(200)), never()]) as server:
            answer = await opened.send(call(server.url))
            full = await failure(opened, call(server.url, connect=0.05))
            assert full.failure == "pool"
            assert str(full) == "toolglot has all 1 connections to upstreams in use"
            answer.close()
        await opened.close()

    client.run(test)


def test_an_upstream_that_takes_no_connection_is_blamed_although_its_call_had_to_wait(client: Client) -> None:
    async def test() -> None:
        opened = HttpTransport(1, {})
        # Nobody accepts: the first connection fills the queue of the kernel, the next is not answered.
        silent = socket.create_server(("127.0.0.1", 0), backlog=0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        async with BadServer([expect(), send(head(200)), never()]) as server:
            answer = await opened.send(call(server.url))
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            waiting = asyncio.create_task(failure(opened, call(url, connect=0.3)))
            while not count_waiting(opened):
                await asyncio.sleep(0)
            answer.close()
            assert (await waiting).failure == "connect"
        await opened.close()
        for each in (silent, *fillers):
            each.close()

    client.run(test)


def test_the_rest_of_a_request_that_was_answered_early_is_not_before_the_next(client: Client) -> None:
    async def test() -> None:
        early = [expect(body=False), reply(b"{}", keep_alive=True), gone(Gate())]
        async with BadServer(early, [expect(), reply(b"next")]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url, b"x" * (16 * 1024 * 1024)))
            assert await answer.read(10) == b"{}"
            answer.close()
            assert await (await opened.send(call(server.url, b"{}"))).read(10) == b"next"
            assert (server.connections, server.requests[1].body) == (2, b"{}")

    client.run(test)
