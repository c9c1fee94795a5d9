"""Bodies with a byte-order mark, and answers that no model makes."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection

import pytest

from tests.server.gateway import at, gateway
from toolglot.dialects import DIALECTS

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def post(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, body, {"content-type": "application/json", "authorization": "Bearer x"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_a_request_may_begin_with_a_byte_order_mark(upstream: str) -> None:
    with gateway({"demo": at(upstream, "demo:", models=("m",))}) as running:
        status, answer = post(running.port, "/v1/chat/completions", b"\xef\xbb\xbf" + json.dumps(BODY).encode())
    assert status == 200, answer
    assert DIALECTS["openai_chat"].decode_response(answer).content


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_to_a_request_that_loads_a_model_has_a_time(stream: bool) -> None:
    with gateway({"demo": at("openai_chat", "demo:", models=("m",))}) as running:
        body = json.dumps({"model": "m", "messages": [], "stream": stream}).encode()
        status, answer = post(running.port, "/api/chat", body)
    assert status == 200, answer
    assert re.search(rb'"created_at":"20[2-9]\d-', answer)
