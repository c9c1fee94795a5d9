"""The HTTP transport: what is sent, what is read, and the pool of connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    chunk,
    close,
    expect,
    head,
    never,
    pause,
    reply,
    send,
    send_each,
    tell,
)
from tests.upstream.calls import SECRET, call, failure, run, transport
from toolglot.upstream.http import HttpTransport
from toolglot.upstream.transport import Call, Reply, Transport, TransportError


def test_the_transport_and_its_reply_keep_the_contract() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply({"ok": True})]) as server, transport() as opened:
            contract: Transport = opened
            answer: Reply = await contract.send(call(server.url))
            assert await answer.read(100) == b'{"ok":true}'
            answer.close()

    run(test)


def test_a_call_is_sent_as_it_is_and_asks_for_nothing_compressed() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"fine", status=418)]) as server, transport() as opened:
            wanted = Call(
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

    run(test)


def test_a_get_has_no_body() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply([])]) as server, transport() as opened:
            answer = await opened.send(Call(method="GET", url=f"{server.url}/v1/models", headers={}))
            assert await answer.read(10) == b"[]"
            assert server.requests[0].method == "GET"
            assert server.requests[0].body == b""

    run(test)


def test_a_body_of_many_megabytes_goes_out_whole() -> None:
    body = b"x" * (3 * 1024 * 1024)

    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as server, transport() as opened:
            answer = await opened.send(call(server.url, body))
            await answer.read(10)
            assert server.requests[0].body == body
            assert server.requests[0].headers["content-length"] == str(len(body))

    run(test)


def test_names_of_headers_come_in_lower_case_and_repeated_ones_joined() -> None:
    fields = [("X-Request-ID", "r1"), ("X-Limit", "a"), ("x-limit", "b"), ("Content-Length", "0")]

    async def test() -> None:
        async with BadServer([expect(), send(head(200, fields))]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            assert answer.headers["x-request-id"] == "r1"
            assert answer.headers["x-limit"] == "a, b"
            assert await answer.read(0) == b""

    run(test)


def test_cookies_are_forgotten() -> None:
    async def test() -> None:
        script = [expect(), reply(b"", headers={"set-cookie": "session=1"})]
        async with BadServer(script) as server, transport() as opened:
            url = server.url.replace("127.0.0.1", "localhost")  # addresses have no cookies anyway
            for _ in range(2):
                answer = await opened.send(call(url))
                await answer.read(0)
            assert "cookie" not in server.requests[1].headers

    run(test)


def test_a_redirect_is_a_reply_and_is_not_followed() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"")]) as other, transport() as opened:
            script = [expect(), reply(b"", status=307, headers={"location": f"{other.url}/stolen"})]
            async with BadServer(script) as server:
                answer = await opened.send(call(server.url))
                assert answer.status == 307
                assert await answer.read(10) == b""
            assert other.connections == 0

    run(test)


def test_chunks_come_as_they_are_written_and_never_empty() -> None:
    async def test() -> None:
        gates = [Gate(), Gate(), Gate()]
        events = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]
        script: list[Any] = [expect(), send(head(200, {"transfer-encoding": "chunked"}))]
        for gate, event in zip(gates, events, strict=True):
            script += [pause(gate), send(chunk(event))]
        async with BadServer([*script, send(LAST_CHUNK)]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            chunks = answer.chunks()
            for gate, event in zip(gates, events, strict=True):
                gate.open()  # nothing of this event was there before
                assert await anext(chunks) == event
            assert [piece async for piece in chunks] == []
            answer.close()

    run(test)


def test_bytes_one_at_a_time_are_the_same_bytes() -> None:
    body = 'data: {"text": "žluťoučký 🐎"}\n\n'.encode() * 5

    async def test() -> None:
        raw = head(200, {"transfer-encoding": "chunked"}) + chunk(body) + LAST_CHUNK
        async with BadServer([expect(), send_each(raw)]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            pieces = [piece async for piece in answer.chunks()]
            assert b"".join(pieces) == body
            assert all(pieces)

    run(test)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def test() -> None:
        async with BadServer([expect(), send(head(200) + b"all of it")]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b"all of it"

    run(test)


def test_a_reply_that_was_read_to_its_end_gives_its_connection_back() -> None:
    again = [expect(), reply(b"{}", keep_alive=True)]

    async def test() -> None:
        async with BadServer([*again, *again, *again]) as server, transport() as opened:
            for _ in range(3):
                answer = await opened.send(call(server.url))
                await answer.read(100)
                answer.close()
            assert (server.connections, len(server.requests)) == (1, 3)

    run(test)


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    async def test() -> None:
        script = [expect(), reply(b"{}", keep_alive=True), close()]
        async with BadServer(script) as server, transport() as opened:
            for count in (1, 2):
                answer = await opened.send(call(server.url))
                await answer.read(100)
                answer.close()
                while opened_sockets(opened):  # until the server's close has come
                    await asyncio.sleep(0)
                assert server.connections == count

    run(test)


def opened_sockets(opened: HttpTransport) -> int:
    connector = opened._session.connector if opened._session is not None else None
    assert connector is not None
    return sum(protocol.is_connected() for pool in connector._conns.values() for protocol, _ in pool)


def test_words_on_an_idle_connection_are_not_taken_for_the_next_answer() -> None:
    """Some servers say 408 on a connection that nobody uses before they close it."""

    async def test() -> None:
        spoken, first = Gate(), Gate()
        unasked = head(408, {"content-length": "0"})
        script = [expect(), reply(b"1", keep_alive=True), pause(first), send(unasked), tell(spoken), expect(), never()]
        async with BadServer(script, [expect(), reply(b"2")]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            assert await answer.read(1) == b"1"
            answer.close()
            first.open()
            await spoken.wait()
            for _ in range(20):  # the bytes are on the loopback interface: let the loop read them
                await asyncio.sleep(0)
            assert (await failure(opened, call(server.url))).failure == "reset"
            answer = await opened.send(call(server.url))
            assert await answer.read(1) == b"2"

    run(test)


def test_more_bytes_than_promised_do_not_spoil_the_next_answer() -> None:
    async def test() -> None:
        script = [expect(), send(head(200, {"content-length": "2"}) + b"{}" + head(200) + b"forged"), never()]
        async with BadServer(script, [expect(), reply(b"true")]) as server, transport() as opened:
            answer = await opened.send(call(server.url))
            try:
                assert await answer.read(100) == b"{}"
            except TransportError as error:  # the surplus came with the head and was seen first
                assert error.failure == "reset"
            answer.close()
            answer = await opened.send(call(server.url))
            assert await answer.read(100) == b"true"

    run(test)


def test_many_calls_at_once_share_the_transport() -> None:
    async def test() -> None:
        async with BadServer([expect(), reply(b"{}")]) as server, transport() as opened:

            async def one() -> bytes:
                answer = await opened.send(call(server.url))
                return await answer.read(10)

            answers: Iterable[bytes] = await asyncio.gather(*(one() for _ in range(25)))
            assert list(answers) == [b"{}"] * 25

    run(test)


def test_a_server_in_a_thread_plays_the_same_scripts() -> None:
    seen, on = Gate(), Gate()
    with BadServer([expect(seen=seen), pause(on), reply(b"{}")]) as server:

        async def test() -> None:
            async with transport() as opened:
                task = asyncio.create_task(opened.send(call(server.url)))
                await seen.wait()
                on.open()
                assert await (await task).read(10) == b"{}"

        run(test)
    assert server.requests[0].json() == {}
