"""A client that ends its side of the connection after its request: it is answered, unless it has really gone."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import mid_call
from tests.server.gateway import CLIENTS, Running, at, gateway, request
from tests.server.loopback import headers_of, status_of, until_close
from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    chunk,
    expect,
    gone,
    pause,
    reply,
    send,
    stream,
)
from tests.waiting import FAILSAFE
from toolglot.server import half_close

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
WHOLE = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)


@contextmanager
def asked(running: Running, client: str, *, streams: bool = False, version: str = "1.1") -> Iterator[socket.socket]:
    """A connection on which a request was sent."""
    path, body = request(client, stream=streams)
    head = f"POST {path} HTTP/{version}\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        yield connection


def until(connection: socket.socket, text: bytes, data: bytes = b"") -> bytes:
    while text not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return data


def body_of(answer: bytes) -> bytes:
    """As Python's own client reads it."""

    class Read(BytesIO):
        def makefile(self, mode: str) -> BytesIO:
            return self

    response = http.client.HTTPResponse(Read(answer))  # type: ignore[arg-type]
    response.begin()
    return response.read()


@EVERY_CLIENT
def test_a_whole_answer_comes_to_who_has_half_closed(client: str) -> None:
    seen, go = Gate(), Gate()
    with (
        BadServer([expect(seen=seen), pause(go), reply(WHOLE)]) as server,
        gateway(at("openai_chat", server.url)) as running,
        asked(running, client) as connection,
    ):
        seen.wait_blocking()
        connection.shutdown(socket.SHUT_WR)
        interim = until(connection, CONTINUE)
        go.open()
        answer = until_close(connection)
        assert interim == CONTINUE
        assert (status_of(answer), headers_of(answer)["connection"]) == (200, "close")
        assert b"Hello" in body_of(CONTINUE + answer)
        assert not running.record().cancelled


@EVERY_CLIENT
def test_a_stream_goes_on_to_its_end_for_who_has_half_closed_in_the_middle(client: str) -> None:
    go = Gate()
    began = mid_call("openai_chat")
    behind = SOUND["openai_chat"].removeprefix(began)
    script = [expect(), stream(began, complete=False), pause(go), send(chunk(behind), LAST_CHUNK)]
    with (
        BadServer(script) as server,
        gateway(at("openai_chat", server.url)) as running,
        asked(running, client, streams=True) as connection,
    ):
        first = until(connection, b"Hel")
        connection.shutdown(socket.SHUT_WR)
        first = until(connection, b"\r\n0", first)  # which is the beginning of the next chunk's size
        go.open()
        body = body_of(first + until_close(connection))
        record = running.record()
    assert not record.cancelled
    assert record.error is None
    with BadServer([expect(), stream(SOUND["openai_chat"])]) as server, gateway(at("openai_chat", server.url)) as usual:
        expected = usual.ask(client, stream=True).body
    assert len(body) == len(expected)  # but for ids and times it is the same


@EVERY_CLIENT
@pytest.mark.parametrize(
    ("streams", "begun"), [(False, False), (True, False), (True, True)], ids=["whole", "stream", "inside a stream"]
)
def test_who_half_closes_and_then_goes_is_noticed(
    client: str, streams: bool, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        half_close, "CHECK_INTERVAL", 0.01
    )  # a close behind a half-close says nothing: it takes a probe
    seen, left = Gate(), Gate()
    told = [stream(mid_call("openai_chat"), complete=False)] if begun else []
    with (
        BadServer([expect(seen=seen), *told, gone(left)]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        with asked(running, client, streams=streams) as connection:
            seen.wait_blocking()
            first = until(connection, b"Hel") if begun else b""
            connection.shutdown(socket.SHUT_WR)
            until(connection, b"\r\n0" if begun else CONTINUE, first)
        left.wait_blocking()
        assert running.record().cancelled
        assert running.service.in_flight == 0


def test_a_client_of_http_1_0_that_half_closes_is_answered_without_interim_responses() -> None:
    seen, go = Gate(), Gate()
    with (
        BadServer([expect(seen=seen), pause(go), reply(WHOLE)]) as server,
        gateway(at("openai_chat", server.url)) as running,
        asked(running, "openai_chat", version="1.0") as connection,
    ):
        seen.wait_blocking()
        connection.shutdown(socket.SHUT_WR)
        go.open()
        answer = until_close(connection)
    assert status_of(answer) == 200
    assert CONTINUE not in answer
