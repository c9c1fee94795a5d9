"""The HTTP transport against a server that misbehaves as it is told, and calls that are given up."""

from __future__ import annotations

import asyncio
import os
import socket
import stat

import pytest

from tests.upstream.bad_server import (
    BadServer,
    Gate,
    Script,
    close,
    expect,
    gone,
    head,
    never,
    reply,
    reset,
    send,
    send_for_ever,
    stream,
)
from tests.upstream.calls import SECRET, call, fails, failure, run, transport
from toolglot.upstream.http import HttpReply, HttpTransport
from toolglot.upstream.transport import Call, TransportError

BEGUN = [expect(), stream("data: 1\n\n", complete=False)]


def test_nobody_listening_is_no_connection() -> None:
    async def test() -> None:
        async with BadServer([never()]) as server:
            url = server.url
        async with transport() as opened:
            error = await failure(opened, call(url))
            assert error.failure == "connect"
            assert "refused" in str(error).lower()

    run(test)


def test_an_unknown_name_is_no_connection() -> None:
    async def test() -> None:
        async with transport() as opened:
            assert (await failure(opened, call("http://nowhere.invalid"))).failure == "connect"

    run(test)


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "http://", "http://ho st/", "http://host/\r\nx: y", "http://host:x/"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    async def test() -> None:
        async with transport() as opened:
            with pytest.raises(TransportError) as caught:
                await opened.send(Call(url=url, headers={}))
            assert caught.value.failure == "connect"

    run(test)


def test_a_header_that_would_break_out_is_not_sent() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply()]) as server, transport() as opened:
            with pytest.raises(TransportError) as caught:
                await opened.send(Call(url=server.url, headers={"x-evil": f"{SECRET}\r\nx-more: 1"}))
            assert caught.value.failure == "connect"
            assert SECRET not in str(caught.value)
            assert server.requests == []

    run(test)


@pytest.mark.parametrize(
    ("name", "script", "expected"),
    [
        ("closed before an answer", [expect(), close()], "reset"),
        ("reset before an answer", [expect(), reset()], "reset"),
        ("reset before the request is read", [reset()], "reset"),
        ("closed inside the head", [expect(), send(b"HTTP/1.1 200 OK\r\ncontent-le"), close()], "reset"),
        ("no HTTP", [expect(), send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), never()], "reset"),
        ("a length too large", [expect(), send(head(200, {"content-length": "9"}) + b"12345"), close()], "reset"),
        (
            "two lengths",
            [expect(), send(head(200, [("content-length", "1"), ("content-length", "2")])), never()],
            "reset",
        ),
        ("no last chunk", [expect(), stream("data: 1\n\n", complete=False), close()], "reset"),
        ("reset in the body", [expect(), stream("data: 1\n\n", complete=False), reset()], "reset"),
        (
            "a chunk of no size",
            [expect(), send(head(200, {"transfer-encoding": "chunked"}) + b"zz\r\n"), never()],
            "reset",
        ),
        ("a header too long", [expect(), send(head(200, {"x-long": "a" * 100_000})), never()], "too_large"),
        ("too many headers", [expect(), send(head(200, [(f"x-{n}", "a") for n in range(5000)])), never()], "reset"),
        ("a body over the limit", [expect(), reply(b"x" * 10_001)], "too_large"),
        ("a body without end", [expect(), send(head(200)), send_for_ever(b"x" * 4096)], "too_large"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_breaks_is_told(name: str, script: Script, expected: str) -> None:
    assert fails(*script) == expected


def test_what_came_before_a_break_is_read_before_it_is_told() -> None:
    async def test() -> None:
        async with BadServer([*BEGUN, close()]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            while answer._response.content.exception() is None:  # a reader that is busy elsewhere
                await asyncio.sleep(0)
            chunks = answer.chunks()
            assert await anext(chunks) == b"data: 1\n\n"
            with pytest.raises(TransportError):
                await anext(chunks)

    run(test)


def test_a_body_of_exactly_the_limit_is_read() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"x" * 1000)]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            assert len(await answer.read(1000)) == 1000

    run(test)


def test_no_answer_in_time_is_a_timeout() -> None:
    assert fails(expect(), never(), first_byte=0.05) == "timeout"


def test_a_head_that_does_not_end_is_a_timeout() -> None:
    assert fails(expect(), send(b"HTTP/1.1 200 OK\r\n"), never(), first_byte=0.05) == "timeout"


def test_silence_inside_an_answer_is_a_timeout() -> None:
    assert fails(expect(), stream("data: 1\n\n", complete=False), never(), idle=0.05) == "timeout"


def test_an_upstream_that_does_not_read_a_large_request_is_a_timeout_and_its_socket_is_cut() -> None:
    async def test() -> None:
        async with BadServer([expect(body=False), never()]) as server, transport() as opened:
            wanted = call(server.url, b"x" * (16 * 1024 * 1024), first_byte=0.1)
            assert (await failure(opened, wanted)).failure == "timeout"
            await no_socket_to(server.port)

    run(test)


async def no_socket_to(port: int) -> None:
    """Until no socket of this process leads there: an upstream that does not read cannot see that one was closed."""
    while any(peer == port for peer in map(_peer, range(3, 256))):
        await asyncio.sleep(0)


def _peer(number: int) -> int | None:
    """The port at the other end of an open file, if it is a connected socket."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return None
        with socket.socket(fileno=os.dup(number)) as connection:
            address = connection.getpeername()
    except OSError:
        return None
    return int(address[1]) if isinstance(address, tuple) else None


def test_waiting_for_a_free_connection_is_bounded() -> None:
    async def test() -> None:
        opened = HttpTransport(max_connections=1, environment={})
        async with BadServer([expect(), send(head(200)), never()]) as server:
            answer = await opened.send(call(server.url))
            full = await failure(opened, call(server.url, connect=0.05))
            assert full.failure == "pool"
            assert str(full) == "toolglot has all 1 connections to upstreams in use"
            answer.close()
        await opened.close()

    run(test)


def test_an_upstream_that_takes_no_connection_is_blamed_although_its_call_had_to_wait() -> None:
    async def test() -> None:
        opened = HttpTransport(max_connections=1, environment={})
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
            connector = opened._open().connector
            assert connector is not None
            while not connector._waiters:
                await asyncio.sleep(0)
            answer.close()
            assert (await waiting).failure == "connect"
        await opened.close()
        for each in (silent, *fillers):
            each.close()

    run(test)


def test_an_early_answer_to_a_large_request_is_read() -> None:
    async def test() -> None:
        script = [expect(body=False), reply({"error": "too large"}, status=413), gone(Gate())]
        async with BadServer(script) as server, transport() as opened:
            answer = await opened.send(call(server.url, b"x" * (16 * 1024 * 1024)))
            assert (answer.status, await answer.read(100)) == (413, b'{"error":"too large"}')
            answer.close()

    run(test)


def test_a_transport_that_was_closed_says_so() -> None:
    async def test() -> None:
        opened = HttpTransport(environment={})
        await opened.close()
        with pytest.raises(TransportError, match="shutting down"):
            await opened.send(call("http://127.0.0.1:1"))

    run(test)


# Giving up


def test_closing_a_reply_before_its_end_cuts_the_socket() -> None:
    async def test() -> None:
        left = Gate()
        async with BadServer([*BEGUN, gone(left)]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            assert await anext(answer.chunks()) == b"data: 1\n\n"
            answer.close()
            await left.wait()

    run(test)


def test_leaving_the_iteration_cuts_the_socket() -> None:
    async def test() -> None:
        left = Gate()
        async with BadServer([*BEGUN, gone(left)]) as server, transport() as opened:
            chunks = (await opened.send(call(server.url))).chunks()
            await anext(chunks)
            await chunks.aclose()
            await left.wait()

    run(test)


def test_cancelling_a_call_that_waits_for_its_head_cuts_the_socket() -> None:
    async def test() -> None:
        asked, left = Gate(), Gate()
        async with BadServer([expect(seen=asked), gone(left)]) as server, transport() as opened:
            task = asyncio.create_task(opened.send(call(server.url)))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await left.wait()

    run(test)


def test_cancelling_a_call_that_is_being_written_cuts_the_socket() -> None:
    async def test() -> None:
        asked = Gate()
        async with BadServer([expect(body=False, seen=asked), never()]) as server, transport() as opened:
            task = asyncio.create_task(opened.send(call(server.url, b"x" * (16 * 1024 * 1024))))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await no_socket_to(server.port)

    run(test)


def test_cancelling_the_iteration_cuts_the_socket() -> None:
    async def test() -> None:
        began, left = Gate(), Gate()

        async def read(answer: HttpReply) -> None:
            async for _ in answer.chunks():
                began.open()

        async with BadServer([*BEGUN, gone(left)]) as server, transport() as opened:
            task = asyncio.create_task(read(await opened.send(call(server.url))))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await left.wait()

    run(test)


def test_what_nobody_reads_stays_with_the_upstream() -> None:
    async def test() -> None:
        count = [0]
        script = [expect(), send(head(200)), send_for_ever(b"x" * 65536, count)]
        async with BadServer(script) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            chunks = answer.chunks()
            await anext(chunks)
            before = -1
            while count[0] != before:  # until the sockets' own buffers are full
                before = count[0]
                assert answer._response.content.total_bytes < 1024 * 1024
                for _ in range(50):
                    await asyncio.sleep(0)
            await chunks.aclose()

    run(test)
