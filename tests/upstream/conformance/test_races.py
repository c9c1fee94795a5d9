"""An upstream that closes an idle connection in the moment in which it is used again.

Whether it has read the request nobody can tell (RFC 9112, 9.3.1), so that only what may be asked twice is asked twice.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.upstream.bad_server import BadServer, Gate, Peer, Step, expect, pause, reply, reset, send, tell
from tests.upstream.calls import call, failure
from tests.upstream.conformance.clients import Client
from toolglot.upstream.transport import UpstreamCall

KEPT = [expect(), reply(b"1", keep_alive=True)]


def hang_up() -> Step:
    """Close the connection, and wait until it is."""

    async def step(peer: Peer) -> None:
        peer.writer.close()
        await peer.writer.wait_closed()

    return step


def reset_now() -> Step:
    async def step(peer: Peer) -> None:
        await reset()(peer)
        await peer.writer.wait_closed()

    return step


@pytest.mark.parametrize("ending", [hang_up(), reset_now()], ids=["closed", "reset"])
@pytest.mark.parametrize(("method", "answered"), [("POST", False), ("GET", True)])
def test_a_request_on_a_connection_that_is_closed_meanwhile(
    client: Client, ending: Step, method: str, answered: bool
) -> None:
    read, closed = Gate(), Gate()
    # The server has a loop of its own, so that the client's cannot learn of the end before it asks again.
    with BadServer([*KEPT, pause(read), ending, tell(closed)], [expect(), reply(b"2")]) as server:

        async def test() -> None:
            async with client.transport() as opened:
                answer = await opened.send(call(server.url))
                assert await answer.read(1) == b"1"
                answer.close()
                read.open()
                closed.wait_blocking()
                asked = call(server.url)
                asked = UpstreamCall(method=method, url=asked.url, headers=asked.headers, body=b"")
                if answered:
                    assert await (await opened.send(asked)).read(1) == b"2"
                else:
                    assert (await failure(opened, asked)).failure == "reset"
                    assert server.connections == 1

        client.run(test)


def test_what_may_be_asked_twice_is_asked_twice_and_no_more(client: Client) -> None:
    read, closed = Gate(), Gate()
    with BadServer([*KEPT, pause(read), hang_up(), tell(closed)], [expect(), hang_up()]) as server:

        async def test() -> None:
            async with client.transport() as opened:
                answer = await opened.send(call(server.url))
                assert await answer.read(1) == b"1"
                answer.close()
                read.open()
                closed.wait_blocking()
                asked = UpstreamCall(method="GET", url=server.url, headers={})
                assert (await failure(opened, asked)).failure == "reset"
                assert server.connections == 2

        client.run(test)


@pytest.mark.parametrize("half", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_what_was_answered_by_half_is_not_asked_again(client: Client, half: bytes) -> None:
    async def test() -> None:
        async with BadServer([*KEPT, expect(), send(half), hang_up()]) as server, client.transport() as opened:
            assert await (await opened.send(call(server.url))).read(1) == b"1"
            asked = UpstreamCall(method="GET", url=server.url, headers={})
            assert (await failure(opened, asked)).failure == "reset"
            assert server.connections == 1

    client.run(test)


def test_what_is_asked_again_is_asked_on_a_new_connection(client: Client) -> None:
    both, read, closed = [Gate(), Gate()], Gate(), [Gate(), Gate()]
    scripts = [
        [expect(seen=seen), pause(both[1]), reply(b"1", keep_alive=True), pause(read), hang_up(), tell(gone)]
        for seen, gone in zip(both, closed, strict=True)
    ]
    with BadServer(*scripts, [expect(), reply(b"2")]) as server:

        async def test() -> None:
            async with client.transport() as opened:
                calls = [asyncio.create_task(opened.send(call(server.url))) for _ in range(2)]
                for answer in await asyncio.gather(*calls):
                    assert await answer.read(1) == b"1"
                    answer.close()
                read.open()
                for gate in closed:
                    gate.wait_blocking()
                asked = UpstreamCall(method="GET", url=server.url, headers={})
                assert await (await opened.send(asked)).read(1) == b"2"

        client.run(test)


def test_a_new_connection_that_breaks_is_not_tried_again(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), hang_up()]) as server, client.transport() as opened:
            asked = UpstreamCall(method="GET", url=server.url, headers={})
            assert (await failure(opened, asked)).failure == "reset"
            assert server.connections == 1

    client.run(test)
