"""How long is waited for what."""

from __future__ import annotations

import asyncio

import pytest

from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    chunk,
    drip,
    expect,
    head,
    never,
    pause,
    send,
    send_for_ever,
    stream,
    tell,
)
from tests.upstream.calls import call, failure, pass_time
from tests.upstream.conformance.clients import Client, chunks_of
from tests.upstream.conformance.sockets import no_socket_to
from tests.waiting import FAILSAFE


def test_no_answer_in_time_is_a_timeout(client: Client) -> None:
    assert client.fails(expect(), never(), first_byte=0.05) == "timeout"


def test_a_head_that_does_not_end_is_a_timeout(client: Client) -> None:
    assert client.fails(expect(), send(b"HTTP/1.1 200 OK\r\n"), never(), first_byte=0.05) == "timeout"


def test_silence_inside_an_answer_is_a_timeout(client: Client) -> None:
    assert client.fails(expect(), stream("data: 1\n\n", complete=False), never(), idle=0.05) == "timeout"


def test_an_upstream_that_does_not_read_a_large_request_is_a_timeout_and_its_socket_is_cut(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(body=False), never()]) as server, client.transport() as opened:
            wanted = call(server.url, b"x" * (16 * 1024 * 1024), first_byte=0.1)
            assert (await failure(opened, wanted)).failure == "timeout"
            await no_socket_to(server.port)

    client.run(test)


def test_interim_heads_do_not_make_the_wait_longer(client: Client) -> None:
    assert client.fails(expect(), send(head(100)), send(head(100)), never(), first_byte=0.05) == "timeout"


def test_parts_of_an_answer_that_bring_nothing_of_its_body_are_silence(client: Client) -> None:
    begun = head(200, {"transfer-encoding": "chunked"}) + b"1\r\na\r\n1;"
    assert client.fails(expect(), send(begun), send(b"extension"), never(), idle=0.05) == "timeout"


@pytest.mark.parametrize("tunnel", [False, True])
def test_a_handshake_that_does_not_go_on_is_no_connection(client: Client, tunnel: bool) -> None:
    """In TLS, and with a proxy."""

    async def test() -> None:
        async with BadServer([never()]) as server:
            url = "https://upstream.test" if tunnel else server.url.replace("http", "https")
            async with client.transport(**{"https_proxy": server.url} if tunnel else {}) as opened:
                error = await failure(opened, call(url, connect=0.05))
                assert error.failure == "connect"
                assert "did not accept a connection within 0.05 seconds" in str(error)

    client.run(test)


def test_the_time_in_which_nobody_reads_is_no_silence(client: Client) -> None:
    async def test() -> None:
        first, on, off = Gate(), Gate(), Gate()
        begun = [expect(), send(head(200, {"transfer-encoding": "chunked"})), pause(first), send(chunk(b"1"))]
        script = [*begun, pause(on), send(LAST_CHUNK), tell(off)]
        async with BadServer(script) as server, BadServer([never()]) as silent, client.transport() as opened:
            chunks = chunks_of(await opened.send(call(server.url, idle=2.0)))
            waiting = asyncio.create_task(anext(chunks))  # the silence that counts is over with what it waits for
            await asyncio.sleep(0)
            first.open()
            assert await waiting == b"1"
            await pass_time(opened, silent.url, 2.5)
            on.open()
            await off.wait()
            assert [piece async for piece in chunks] == []

    client.run(test)


def test_each_part_of_a_body_gives_the_next_one_its_time(client: Client) -> None:
    """Together they take longer than one silence may."""

    async def test() -> None:
        gates = [Gate() for _ in range(6)]
        script = [expect(), send(head(200, {"transfer-encoding": "chunked"}))]
        for gate in gates:
            script += [pause(gate), send(chunk(b"."))]
        server, silent = BadServer([*script, send(LAST_CHUNK)]), BadServer([never()])
        async with server, silent, client.transport() as opened:
            reading = asyncio.create_task((await opened.send(call(server.url, idle=2.0))).read(10))
            for gate in gates:
                await pass_time(opened, silent.url, 0.4)
                gate.open()
            assert await reading == b"......"

    client.run(test)


def test_a_reader_that_holds_the_upstream_up_does_not_blame_it(client: Client) -> None:
    async def test() -> None:
        server = BadServer([expect(), send(head(200)), send_for_ever(b"x" * 65536)])
        async with server, BadServer([never()]) as silent, client.transport() as opened:
            chunks = chunks_of(await opened.send(call(server.url, idle=1.0)))
            await anext(chunks)
            await pass_time(opened, silent.url, 1.5)
            for _ in range(20):
                assert await anext(chunks)
            await chunks.aclose()

    client.run(test)


PING = b'event: ping\ndata: {"type": "ping"}\n\n'
KEEP_ALIVES: dict[str, list[bytes]] = {
    "a byte of a comment": [b":"],
    "comments": [b": OPENROUTER PROCESSING\n\n"],
    "blank lines": [b"\n"],
    "spaces before a document": [b" "],
    "pings": [PING],
    "pings, byte by byte": [PING[at : at + 1] for at in range(len(PING))],
    "another kind of ping": [b'data: {"type":"keepalive","sequence_number":3}\n\n'],
    "events without data": [b"event: message\n\n", b"data:\n\n"],
    "an event that does not end": [b"x"],
    "chunks without a choice": [b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[]}\n\n'],
    "empty deltas": [b'data: {"id":"c","created":1,"choices":[{"index":0,"delta":{"role":"assistant"}}]}\r\n\r\n'],
    "empty texts": [b'data: {"choices":[{"index":0,"delta":{"content":"","tool_calls":[]},"logprobs":null}]}\n\n'],
    "empty lines of JSON": [
        b'{"model":"m","created_at":"2026-01-01","message":{"role":"a","content":""},"done":false}\n'
    ],
    "empty lines of JSON, in pieces": [b'{"model":"m","mess', b'age":{"role":"a","content":""},', b'"done":false}\n'],
    "empty parts": [b'data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"index":0}]}\n\n'],
}


@pytest.mark.parametrize("case", KEEP_ALIVES)
def test_an_answer_of_keep_alives_alone_is_given_up(client: Client, case: str) -> None:
    async def test() -> None:
        script = [expect(), stream(b'data: {"a":1}\n\n', complete=False), drip(*KEEP_ALIVES[case], interval=0.02)]
        async with BadServer(script) as server, client.transport() as opened:
            error = await failure(opened, call(server.url, idle=FAILSAFE, progress=0.4))
        assert error.failure == "timeout"
        assert "has sent nothing but keep-alives for 0.4 seconds" in str(error)

    client.run(test)


EVENTS: dict[str, list[bytes]] = {
    "events": [b'data: {"a":"x"}\n\n'],
    "events and comments": [b": wait\n\n", b'event: x\r\ndata: {"a":"x"}\r\n\r\n'],
    "events that are cut": [b"da", b'ta: {"a', b'":"x"}\n\n'],
    "events that are not JSON": [b"data: CgQxMjM0\n\n"],
    "text": [b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":" "}}]}\n\n'],
    "calls": [b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}\n\n'],
    "lines of JSON": [b'{"model":"m","message":{"role":"assistant","content":"x"},"done":false}\n'],
    "lines of JSON that are cut": [
        b'{"model":"m","message":{"role":"as',
        b'sistant","content":"x"},"done":',
        b"false}\n",
    ],
    "large pieces": [b"x" * 20_000],
}


@pytest.mark.parametrize("case", EVENTS)
def test_an_answer_that_makes_progress_may_take_as_long_as_it_likes(client: Client, case: str) -> None:
    async def test() -> None:
        pieces = EVENTS[case]
        script = [expect(), stream(complete=False), drip(*pieces, times=60 // len(pieces)), send(LAST_CHUNK)]
        async with BadServer(script) as server, client.transport() as opened:
            reply = await opened.send(call(server.url, idle=FAILSAFE, progress=1.0))
            assert await reply.read(10_000_000) == b"".join(pieces) * (60 // len(pieces))

    client.run(test)


def test_the_time_in_which_nobody_reads_is_no_lack_of_progress(client: Client) -> None:
    async def test() -> None:
        on = Gate()
        script = [expect(), stream(b": wait\n\n", complete=False), pause(on), send(chunk(b": on\n\n"), LAST_CHUNK)]
        async with BadServer(script) as server, BadServer([never()]) as silent, client.transport() as opened:
            chunks = chunks_of(await opened.send(call(server.url, idle=FAILSAFE, progress=1.0)))
            assert await anext(chunks) == b": wait\n\n"
            await pass_time(opened, silent.url, 1.5)
            on.open()
            assert [piece async for piece in chunks] == [b": on\n\n"]

    client.run(test)
