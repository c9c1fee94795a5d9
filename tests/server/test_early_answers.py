"""Answers that come before the whole request, answers to HTTP/1.0, and offers of a WebSocket: what is on the wire."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES
from tests.lint.streams import SOUND
from tests.server.gateway import LIMITS, SERVER, Running, at, gateway, request
from tests.server.loopback import HEAD, Served, headers_of, json_of, responses_in, serve, status_of
from tests.server.loopback import until_close as rest
from tests.server.loopback import until_response as response
from tests.upstream.bad_server import BadServer, Gate, Script, expect, gone, reply, stream
from tests.waiting import FAILSAFE
from toolglot.ir import replace
from toolglot.server.app import App
from toolglot.server.request_head import ConnectionLimits

GATES = ConnectionLimits(drain_bytes=1000, drain_timeout=1.0, linger=0.05)
EARLY = b"POST /early HTTP/1.1\r\n" + HEAD
NEXT = b"POST /echo HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\n\r\nnext"


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serve(GATES, loop=request.param) as server:
        yield server


# Early answers


@pytest.mark.parametrize(
    ("framing", "body"),
    [(b"Content-Length: 500", b"a" * 500), (b"Transfer-Encoding: chunked", b"3\r\nabc\r\n0\r\n\r\n")],
    ids=["with a length", "chunked"],
)
def test_a_connection_outlives_an_early_refusal_of_a_small_body(served: Served, framing: bytes, body: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(EARLY + framing + b"\r\n\r\n" + body[:2])
        connection.sendall(body[2:])
        first = response(connection)
        connection.sendall(NEXT)
        second = response(connection)
    assert (status_of(first), json_of(first)) == (401, {"error": "early"})
    assert "connection" not in headers_of(first)
    assert (status_of(second), json_of(second)["body"]) == (200, "next")


UNREAD = {
    "a large body": (b"Content-Length: 1001\r\n\r\n", b"a" * 100),
    "a body of which no more comes": (b"Content-Length: 100\r\n\r\n", b"a"),
    "a chunked body without end": (b"Transfer-Encoding: chunked\r\n\r\n", b"7d0\r\n" + b"a" * 1999),
    "a length with many digits": (b"Content-Length: 99999999999999999\r\n\r\n", b"a"),
}


@pytest.mark.parametrize(("framing", "body"), UNREAD.values(), ids=UNREAD.keys())
def test_an_early_refusal_that_ends_the_connection_says_so(served: Served, framing: bytes, body: bytes) -> None:
    answer = served.exchange(EARLY + framing + body)
    assert (status_of(answer), responses_in(answer)) == (401, 1)
    assert headers_of(answer)["connection"] == "close"


def test_a_client_that_waits_for_100_is_refused_without_being_asked_for_its_body(served: Served) -> None:
    answer = served.exchange(EARLY + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert (status_of(answer), responses_in(answer)) == (401, 1)
    assert headers_of(answer)["connection"] == "close"


def test_an_early_answer_that_is_no_refusal_does_not_wait_for_the_request(served: Served) -> None:
    served.app.streaming.clear()
    with served.connect() as connection:
        connection.sendall(b"POST /stream HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n")
        assert served.app.streaming.wait(FAILSAFE)
        head = connection.recv(65536)
    assert headers_of(head)["connection"] == "close"


KEYED = replace(SERVER, keys=("secret",))
REFUSALS = {
    401: ("POST", "/v1/messages", {}),
    404: ("POST", "/v1/nothing", {"authorization": "Bearer secret"}),
    405: ("PUT", "/v1/messages", {"authorization": "Bearer secret"}),
    413: ("POST", "/v1/messages", {"authorization": "Bearer secret"}),
    421: ("POST", "/v1/messages", {"host": "evil.example"}),
}


@pytest.mark.parametrize("status", REFUSALS)
def test_a_keep_alive_client_never_loses_the_request_behind_an_early_refusal(status: int) -> None:
    method, path, headers = REFUSALS[status]
    server = SERVER if status == 421 else KEYED  # with keys, whoever has one may use any name
    with gateway(server=server, limits=replace(LIMITS, body=2000)) as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=FAILSAFE)
        connection.connect()
        own = connection.sock
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in {**headers, "content-length": "3000"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(b"a" * 3000)
        first = connection.getresponse()
        first.read()
        connection.request("GET", "/health")
        second = connection.getresponse()
        second.read()
        assert (first.status, first.getheader("connection"), second.status) == (status, None, 200)
        assert connection.sock is own
        connection.close()


# HTTP/1.0


def _http_1_0(running: Running, client: str, *, stream: bool, keep_alive: bool = False) -> bytes:
    path, body = request(client, stream=stream)
    fields = f"Host: localhost\r\nContent-Length: {len(body)}\r\n" + "Connection: keep-alive\r\n" * keep_alive
    with socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE) as connection:
        connection.sendall(f"POST {path} HTTP/1.0\r\n{fields}\r\n".encode() + body)
        return rest(connection)


@pytest.mark.parametrize("keep_alive", [False, True], ids=["plain", "keep-alive"])
@pytest.mark.parametrize("client", JSON_NAMES)
def test_a_stream_to_an_http_1_0_client_is_not_chunked_and_ends_with_the_connection(
    client: str, keep_alive: bool
) -> None:
    with BadServer([expect(), stream(SOUND[client])]) as server, gateway(at(client, server.url)) as running:
        answer = _http_1_0(running, client, stream=True, keep_alive=keep_alive)
    assert status_of(answer) == 200
    headers = headers_of(answer)
    assert ("transfer-encoding" in headers, headers["connection"]) == (False, "close")
    assert answer.partition(b"\r\n\r\n")[2] == SOUND[client]


def test_a_stream_to_an_http_1_0_client_flows_as_it_comes() -> None:
    first = SOUND["anthropic"].partition(b"event: content_block_delta")[0]
    script: Script = [expect(), stream(first, complete=False), gone(Gate())]
    with BadServer(script) as server, gateway(at("anthropic", server.url)) as running:
        path, body = request("anthropic", stream=True)
        with socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE) as connection:
            connection.sendall(f"POST {path} HTTP/1.0\r\n".encode() + HEAD)
            connection.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            seen = b""
            while not seen.endswith(first):
                piece = connection.recv(65536)
                assert piece, seen
                seen += piece


def test_a_whole_answer_to_an_http_1_0_client_has_a_length_and_ends_the_connection() -> None:
    document: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
    document |= {"id": "m", "model": "m", "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    with BadServer([expect(), reply(document)]) as server, gateway(at("anthropic", server.url)) as running:
        answer = _http_1_0(running, "anthropic", stream=False, keep_alive=True)
    body = answer.partition(b"\r\n\r\n")[2]
    headers = headers_of(answer)
    assert (headers["content-length"], headers["connection"]) == (str(len(body)), "close")
    assert json.loads(body)["content"] == document["content"]


# WebSockets

HANDSHAKE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize(
    "path",
    ["/v1/responses", "/responses", "/v1/chat/completions", "/v1/messages", "/v1beta/models/m:streamGenerateContent"],
)
def test_an_offer_of_a_websocket_where_models_answer_gets_426_and_the_connection_lives_on(path: str) -> None:
    with (
        gateway() as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE) as connection,
    ):
        connection.sendall(f"GET {path} HTTP/1.1\r\n".encode() + HEAD + HANDSHAKE)
        answer = response(connection)
        connection.sendall(b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert status_of(response(connection)) == 200
    headers = headers_of(answer)
    assert (status_of(answer), headers["upgrade"], headers["connection"]) == (426, "HTTP/1.1", "upgrade")
    assert "POST" in headers["allow"]
    error = json_of(answer)["error"]
    assert "POST" in error["message"]


def test_a_get_without_an_offer_is_still_a_wrong_method() -> None:
    with gateway() as running:
        assert running.call("GET", "/v1/responses").status == 405


def test_a_path_that_is_not_there_is_told_so_whatever_is_offered() -> None:
    with gateway() as running:
        headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        assert running.call("GET", "/v1/realtime", headers=headers).status == 404


@pytest.mark.parametrize("extensions", [{}, {"websocket.http.response": {}}], ids=["close", "response"])
def test_a_handshake_that_another_server_has_taken_is_refused(extensions: dict[str, object]) -> None:
    sent: list[dict[str, object]] = []

    async def send_it(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/responses", "headers": [], "extensions": extensions}
    asyncio.run(App(None)(scope, None, send_it))  # type: ignore[arg-type]
    if extensions:
        assert [message["type"] for message in sent] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert sent[0]["status"] == 426
    else:
        assert [message["type"] for message in sent] == ["websocket.close"]
