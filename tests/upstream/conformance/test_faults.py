"""The HTTP transport against a server that misbehaves as it is told, and calls that are given up."""

from __future__ import annotations

import asyncio

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
from tests.upstream.calls import SECRET, call, failure
from tests.upstream.conformance.clients import Client, is_broken
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.transport import TransportError, UpstreamCall

BEGUN = [expect(), stream("data: 1\n\n", complete=False)]


def test_nobody_listening_is_no_connection(client: Client) -> None:
    async def test() -> None:
        async with BadServer([never()]) as server:
            url = server.url
        async with client.transport() as opened:
            error = await failure(opened, call(url))
            assert error.failure == "connect"
            assert "refused" in str(error).lower()

    client.run(test)


def test_an_unknown_name_is_no_connection(client: Client) -> None:
    async def test() -> None:
        async with client.transport() as opened:
            assert (await failure(opened, call("http://nowhere.invalid"))).failure == "connect"

    client.run(test)


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "http://", "http://ho st/", "http://host/\r\nx: y", "http://host:x/"]
)
def test_an_address_that_is_none_is_refused(client: Client, url: str) -> None:
    async def test() -> None:
        async with client.transport() as opened:
            with pytest.raises(TransportError) as caught:
                await opened.send(UpstreamCall(url=url, headers={}))
            assert caught.value.failure == "connect"

    client.run(test)


def test_a_header_that_would_break_out_is_not_sent(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply()]) as server, client.transport() as opened:
            with pytest.raises(TransportError) as caught:
                await opened.send(UpstreamCall(url=server.url, headers={"x-evil": f"{SECRET}\r\nx-more: 1"}))
            assert caught.value.failure == "connect"
            assert SECRET not in str(caught.value)
            assert server.requests == []

    client.run(test)


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
        ("too many headers", [expect(), send(head(200, [(f"x-{n}", "a") for n in range(5000)])), never()], "too_large"),
        ("a body over the limit", [expect(), reply(b"x" * 10_001)], "too_large"),
        ("a body without end", [expect(), send(head(200)), send_for_ever(b"x" * 4096)], "too_large"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_breaks_is_told(client: Client, name: str, script: Script, expected: str) -> None:
    assert client.fails(*script) == expected


def test_what_came_before_a_break_is_read_before_it_is_told(client: Client) -> None:
    async def test() -> None:
        async with BadServer([*BEGUN, close()]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            while not is_broken(answer):  # a reader that is busy elsewhere
                await asyncio.sleep(0)
            chunks = answer.chunks()
            assert await anext(chunks) == b"data: 1\n\n"
            with pytest.raises(TransportError):
                await anext(chunks)

    client.run(test)


def test_a_body_of_exactly_the_limit_is_read(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"x" * 1000)]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert len(await answer.read(1000)) == 1000

    client.run(test)


def test_an_early_answer_to_a_large_request_is_read(client: Client) -> None:
    async def test() -> None:
        script = [expect(body=False), reply({"error": "too large"}, status=413), gone(Gate())]
        async with BadServer(script) as server, client.transport() as opened:
            answer = await opened.send(call(server.url, b"x" * (16 * 1024 * 1024)))
            assert (answer.status, await answer.read(100)) == (413, b'{"error":"too large"}')
            answer.close()

    client.run(test)


def test_a_transport_that_was_closed_says_so(client: Client) -> None:
    async def test() -> None:
        opened = HttpTransport(10, {})
        await opened.close()
        with pytest.raises(TransportError, match="shutting down"):
            await opened.send(call("http://127.0.0.1:1"))

    client.run(test)
