"""Requests that a client sends before the ones before them are answered (RFC 9112, section 9.3.2)."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import pytest
from msgspec.structs import replace

from tests.server.gateway import LIMITS, Running, gateway, request
from tests.server.loopback import headers_of, next_response, status_of
from tests.waiting import FAILSAFE

SMALL = replace(LIMITS, body=4000)


def encode(method: str, path: str, body: bytes = b"", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    return f"{method} {path} HTTP/1.1\r\n{fields}".encode() + body


def post(client: str, **fields: Any) -> bytes:
    return encode("POST", *request(client, model="demo", **fields))


# The bytes of a request; the status, and something that only its answer has.
REQUESTS: list[tuple[bytes, int, bytes]] = [
    (post("openai_chat"), 200, b'"chat.completion"'),
    (post("anthropic", stream=True), 200, b"event: message_stop"),
    (encode("GET", "/health"), 200, b"{"),
    (post("openai_chat", stream=True), 200, b"data: [DONE]"),
    (encode("GET", "/nothing/here"), 404, b"/nothing/here"),
    (post("anthropic"), 200, b'"type":"message"'),
    (encode("POST", "/v1/messages", b" " * 5000), 413, b'"request_too_large"'),
    (encode("POST", "/v1/chat/completions", b"{"), 400, b'"invalid_request_error"'),
    (encode("POST", "/v1/responses", json.dumps({"model": "demo", "input": "Hi"}).encode()), 200, b'"response"'),
    (post("gemini", stream=True), 200, b"finishReason"),
    (encode("GET", "/v1/models"), 200, b'"data"'),
]


def send_in_pieces(running: Running, data: bytes, sizes: list[int]) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    at = 0
    for size in sizes:
        connection.sendall(data[at : at + size])
        at += size
    connection.sendall(data[at:])
    return connection


@pytest.mark.parametrize("seed", range(6))
def test_pipelined_requests_of_all_kinds_are_answered_in_order(seed: int) -> None:
    chance = random.Random(seed)
    chosen = [chance.choice(REQUESTS) for _ in range(12)] if seed else REQUESTS
    data = b"".join(sent for sent, _, _ in chosen)
    sizes = [chance.randrange(1, 1500) for _ in range(12)] if seed else []
    with gateway(limits=SMALL) as running, send_in_pieces(running, data, sizes) as connection:
        with connection.makefile("rb") as stream:
            for _, status, mark in chosen:
                answer = next_response(stream)
                assert (status_of(answer), "connection" in headers_of(answer)) == (status, False), answer
                assert mark in answer
        connection.sendall(encode("GET", "/health"))
        with connection.makefile("rb") as stream:
            assert status_of(next_response(stream)) == 200


def test_an_answer_that_ends_the_connection_says_so_and_is_the_last_one() -> None:
    too_large = encode("POST", "/v1/messages", b" " * 100, length=10_000_000)
    data = REQUESTS[0][0] + REQUESTS[1][0] + too_large + REQUESTS[0][0]
    with (
        gateway(limits=SMALL) as running,
        send_in_pieces(running, data, []) as connection,
        connection.makefile("rb") as stream,
    ):
        answers = [next_response(stream) for _ in range(4)]
    assert [status_of(answer) for answer in answers[:3]] == [200, 200, 413]
    assert [headers_of(answer).get("connection") for answer in answers[:3]] == [None, None, "close"]
    assert answers[3] == b""


def test_a_client_that_half_closes_after_pipelined_requests_gets_all_answers() -> None:
    chosen = REQUESTS[:6]
    data = b"".join(sent for sent, _, _ in chosen)
    with gateway(limits=SMALL) as running, send_in_pieces(running, data, []) as connection:
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as stream:
            for _, status, mark in chosen:
                answer = next_response(stream)
                assert status_of(answer) == status
                assert mark in answer
            assert next_response(stream) == b""
