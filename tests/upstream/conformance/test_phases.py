"""A call that is cancelled in each of its phases leaves nothing behind: no socket, no place taken, nothing to reuse."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.upstream.bad_server import (
    BadServer,
    Gate,
    Peer,
    Script,
    Step,
    expect,
    gone,
    head,
    make_certificate,
    pause,
    reply,
    send,
    stream,
    tell,
)
from tests.upstream.calls import call
from tests.upstream.conformance.clients import Client, count_idle, count_waiting
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.transport import Reply, Transport

MEGABYTES = b"x" * (16 * 1024 * 1024)


def some_bytes() -> Step:
    """The first words of a handshake."""

    async def step(peer: Peer) -> None:
        assert await peer.reader.read(1)

    return step


def phases(reached: Gate, left: Gate) -> dict[str, tuple[Script, bytes]]:
    """How far the server lets a call come, and what is sent to it."""
    chunked = head(200, {"transfer-encoding": "chunked"})
    return {
        "nothing was answered": ([expect(seen=reached), gone(left)], b"{}"),
        "the request is being written": ([expect(body=False, seen=reached), gone(left)], MEGABYTES),
        "half a head came": ([expect(), send(b"HTTP/1.1 200 OK\r\nx: "), tell(reached), gone(left)], b"{}"),
        "an interim head came": ([expect(), send(head(100)), tell(reached), gone(left)], b"{}"),
        "the head came": ([expect(), send(chunked), tell(reached), gone(left)], b"{}"),
        "half a chunk came": ([expect(), send(chunked + b"9\r\nabc"), tell(reached), gone(left)], b"{}"),
        "an answer goes on": ([expect(), stream("data: 1\n\n", complete=False), tell(reached), gone(left)], b"{}"),
        "the last chunk came by half": ([expect(), send(chunked + b"0\r\n"), tell(reached), gone(left)], b"{}"),
    }


async def given_up(opened: Transport, url: str, body: bytes, reached: Gate) -> None:
    """Make a call, and cancel it when the server has come so far."""

    async def whole() -> None:
        answer: Reply = await opened.send(call(url, body))
        await answer.read(1000)

    task = asyncio.create_task(whole())
    await reached.wait()
    for _ in range(5):  # what was sent last is read
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("phase", phases(Gate(), Gate()))
def test_a_call_that_is_cancelled_is_gone(client: Client, phase: str) -> None:
    async def test() -> None:
        reached, left = Gate(), Gate()
        script, body = phases(reached, left)[phase]
        opened = HttpTransport(1, {})
        async with BadServer(script, [expect(), reply(b"next")]) as server:
            await given_up(opened, server.url, body, reached)
            assert count_idle(opened) == 0
            # There is but one place, so it must be free; and the connection is another.
            assert await (await opened.send(call(server.url))).read(10) == b"next"
            assert server.connections == 2
            await left.wait()
        await opened.close()

    client.run(test)


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_connection_that_is_cancelled_while_it_is_made_is_gone(client: Client, tmp_path: Path, scheme: str) -> None:
    """In the handshake of TLS, and in the tunnel of a proxy."""

    async def test() -> None:
        reached, left = Gate(), Gate()
        script = [some_bytes(), tell(reached), gone(left)]
        async with BadServer(script, [expect(), reply(b"next")]) as server:
            environment = {"https_proxy": server.url} if scheme == "http" else {}
            opened = HttpTransport(1, environment)
            away = "https://upstream.test" if scheme == "http" else server.url.replace("http", "https")
            await given_up(opened, away, b"{}", reached)
            await left.wait()
            assert await (await opened.send(call(server.url))).read(10) == b"next"
            await opened.close()

    client.run(test)


def test_a_call_that_is_cancelled_in_the_queue_takes_no_place(client: Client) -> None:
    async def test() -> None:
        opened, on = HttpTransport(1, {}), Gate()
        async with BadServer([expect(), send(head(200)), gone(on)], [expect(), reply(b"next")]) as server:
            first = await opened.send(call(server.url))
            tasks = [asyncio.create_task(opened.send(call(server.url))) for _ in range(3)]
            while count_waiting(opened) < 3:
                await asyncio.sleep(0)
            tasks[0].cancel()
            first.close()
            tasks[1].cancel()  # in the moment in which it may have been given the place
            answer = await tasks[2]
            assert await answer.read(10) == b"next"
            answer.close()
            for task in tasks[:2]:
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await (await opened.send(call(server.url))).read(10) == b"next"
        await opened.close()

    client.run(test)


@pytest.mark.parametrize("secure", [False, True])
def test_a_closed_transport_leaves_no_connection(client: Client, tmp_path: Path, secure: bool) -> None:
    certificate, context = make_certificate(tmp_path)

    async def test() -> None:
        idle, busy, asked = Gate(), Gate(), Gate()
        # The first two calls are under client at the same time, so that they have a connection each.
        kept = [expect(), pause(asked), reply(b"{}", keep_alive=True), gone(idle)]
        going = [expect(seen=asked), stream("data: 1\n\n", complete=False), gone(busy)]
        async with BadServer(kept, going, tls=context if secure else None) as server:
            opened = HttpTransport(10, {"SSL_CERT_FILE": str(certificate)})
            first = asyncio.create_task(opened.send(call(server.url)))
            while not server.requests:
                await asyncio.sleep(0)
            second = await opened.send(call(server.url))
            answer = await first
            assert await answer.read(10) == b"{}"
            answer.close()
            assert count_idle(opened) == 1
            await opened.close()
            await idle.wait()
            await busy.wait()
            second.close()

    client.run(test)
