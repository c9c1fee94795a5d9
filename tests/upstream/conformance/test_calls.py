"""The HTTP transport: what is sent, what is read, and the pool of connections."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    chunk,
    expect,
    head,
    pause,
    reply,
    send,
    send_each,
)
from tests.upstream.calls import SECRET, call
from tests.upstream.conformance.clients import Client
from toolglot.upstream.transport import Reply, Transport, UpstreamCall


def test_the_transport_and_its_reply_keep_the_contract(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply({"ok": True})]) as server, client.transport() as opened:
            contract: Transport = opened
            answer: Reply = await contract.send(call(server.url))
            assert await answer.read(100) == b'{"ok":true}'
            answer.close()

    client.run(test)


def test_a_call_is_sent_as_it_is_and_asks_for_nothing_compressed(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"fine", status=418)]) as server, client.transport() as opened:
            wanted = UpstreamCall(
                url=f"{server.url}/v1beta/models/a%2Fb:go?alt=sse",
                headers={"x-api-key": SECRET, "accept-encoding": "gzip, br"},
                body=b'{"model":"m"}',
            )
            answer = await opened.send(wanted)
            assert (answer.status, await answer.read(10)) == (418, b"fine")
            request = server.requests[0]
            assert request.head.startswith(b"POST /v1beta/models/a%2Fb:go?alt=sse HTTP/1.1\r\n")
            assert request.body == b'{"model":"m"}'
            assert request.headers["accept-encoding"] == "identity"
            assert request.headers["x-api-key"] == SECRET
            assert request.headers["user-agent"] == "toolglot"
            assert request.headers["content-length"] == "13"
            assert "cookie" not in request.headers

    client.run(test)


def test_a_get_has_no_body(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply([])]) as server, client.transport() as opened:
            answer = await opened.send(UpstreamCall(method="GET", url=f"{server.url}/v1/models", headers={}))
            assert await answer.read(10) == b"[]"
            assert server.requests[0].method == "GET"
            assert server.requests[0].body == b""

    client.run(test)


def test_a_body_of_many_megabytes_goes_out_whole(client: Client) -> None:
    body = b"x" * (3 * 1024 * 1024)

    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url, body))
            await answer.read(10)
            assert server.requests[0].body == body
            assert server.requests[0].headers["content-length"] == str(len(body))

    client.run(test)


def test_names_of_headers_come_in_lower_case_and_repeated_ones_joined(client: Client) -> None:
    fields = [("X-Request-ID", "r1"), ("X-Limit", "a"), ("x-limit", "b"), ("Content-Length", "0")]

    async def test() -> None:
        async with BadServer([expect(), send(head(200, fields))]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert answer.headers["x-request-id"] == "r1"
            assert answer.headers["x-limit"] == "a, b"
            assert await answer.read(0) == b""

    client.run(test)


def test_cookies_are_forgotten(client: Client) -> None:
    async def test() -> None:
        script = [expect(), reply(b"", headers={"set-cookie": "session=1"})]
        async with BadServer(script) as server, client.transport() as opened:
            url = server.url.replace("127.0.0.1", "localhost")  # addresses have no cookies anyway
            for _ in range(2):
                answer = await opened.send(call(url))
                await answer.read(0)
            assert "cookie" not in server.requests[1].headers

    client.run(test)


def test_a_redirect_is_a_reply_and_is_not_followed(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"")]) as other, client.transport() as opened:
            script = [expect(), reply(b"", status=307, headers={"location": f"{other.url}/stolen"})]
            async with BadServer(script) as server:
                answer = await opened.send(call(server.url))
                assert answer.status == 307
                assert await answer.read(10) == b""
            assert other.connections == 0

    client.run(test)


def test_chunks_come_as_they_are_written_and_never_empty(client: Client) -> None:
    async def test() -> None:
        gates = [Gate(), Gate(), Gate()]
        events = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]
        script: list[Any] = [expect(), send(head(200, {"transfer-encoding": "chunked"}))]
        for gate, event in zip(gates, events, strict=True):
            script += [pause(gate), send(chunk(event))]
        async with BadServer([*script, send(LAST_CHUNK)]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            chunks = answer.chunks()
            for gate, event in zip(gates, events, strict=True):
                gate.open()  # nothing of this event was there before
                assert await anext(chunks) == event
            assert [piece async for piece in chunks] == []
            answer.close()

    client.run(test)


def test_bytes_one_at_a_time_are_the_same_bytes(client: Client) -> None:
    body = 'data: {"text": "žluťoučký 🐎"}\n\n'.encode() * 5

    async def test() -> None:
        raw = head(200, {"transfer-encoding": "chunked"}) + chunk(body) + LAST_CHUNK
        async with BadServer([expect(), send_each(raw)]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            pieces = [piece async for piece in answer.chunks()]
            assert b"".join(pieces) == body
            assert all(pieces)

    client.run(test)


def test_a_body_without_a_length_ends_with_the_connection(client: Client) -> None:
    async def test() -> None:
        async with BadServer([expect(), send(head(200) + b"all of it")]) as server, client.transport() as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b"all of it"

    client.run(test)


def test_a_server_in_a_thread_plays_the_same_scripts(client: Client) -> None:
    seen, on = Gate(), Gate()
    with BadServer([expect(seen=seen), pause(on), reply(b"{}")]) as server:

        async def test() -> None:
            async with client.transport() as opened:
                task = asyncio.create_task(opened.send(call(server.url)))
                await seen.wait()
                on.open()
                assert await (await task).read(10) == b"{}"

        client.run(test)
    assert server.requests[0].json() == {}
