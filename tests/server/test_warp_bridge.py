"""The bridge: Warp's protobuf as JSON over HTTP, where the configuration allows it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.gateway import Running, gateway
from tests.warp_server import frames
from tests.warp_server.messages import encode
from tests.warp_server.scripts import SCRIPTS
from toolglot.config.schema import ServerConfig

TREE = {"input": {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}}}
RAW = encode("Request", TREE)
TEXT = base64.b64encode(RAW).decode()
STREAM = SCRIPTS["one call"].body


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway(server=ServerConfig(warp_bridge=True)) as served:
        yield served


def post(running: Running, path: str, body: Any) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = running.call("POST", f"/api/{path}", data, {"content-type": "application/json"})
    return answer.status, answer.json()


def test_a_request_goes_there_and_back(running: Running) -> None:
    said = {"protobuf_bytes": TEXT, "size": len(RAW), "message_type": "Request"}
    assert post(running, "encode", {"json_data": TREE}) == (200, said)
    shown = {"json_data": TREE, "size": len(RAW), "message_type": "Request"}
    assert post(running, "decode", said) == (200, shown)
    assert post(running, "decode", {"protobuf_bytes": TEXT}) == (200, shown)
    assert post(running, "decode", RAW) == (200, shown)


def test_a_stream_is_decoded_whole_or_in_pieces(running: Running) -> None:
    payloads = frames.payloads(STREAM)
    status, whole = post(running, "stream-decode", STREAM)
    assert (status, whole["total_chunks"], whole["total_size"]) == (200, len(payloads), sum(map(len, payloads)))
    assert "init" in whole["chunks"][0]["json_data"]
    pieces = [base64.urlsafe_b64encode(payload).decode().rstrip("=") for payload in payloads]
    assert post(running, "stream-decode", {"protobuf_chunks": pieces}) == (200, whole)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("encode", b"[]", "$: a JSON object is expected"),
        ("encode", {}, "json_data: an object is expected"),
        ("encode", {"json_data": {"inputs": 1}}, "$.inputs: Request has no such field"),
        ("encode", {"json_data": {}, "message_type": 1}, "message_type: the name of a message is expected"),
        ("encode", {"json_data": {}, "message_type": "x.Nothing"}, "message: there is no message"),
        ("decode", {"protobuf_bytes": "?"}, "protobuf_bytes: base64 is expected"),
        ("decode", b"\xff\xff", "$: this is neither Request nor ResponseEvent"),
        ("stream-decode", {"protobuf_chunks": ["CgA=", 1]}, "protobuf_chunks[1]: base64 is expected"),
        ("stream-decode", {"protobuf_chunks": ["CgA=", "////"]}, "protobuf_chunks[1]: this is no ResponseEvent"),
        ("stream-decode", b"", "$: a stream of events is expected"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(running: Running, path: str, body: Any, told: str) -> None:
    status, answer = post(running, path, body)
    assert status == 400
    assert told in answer["error"]["message"]


@pytest.mark.parametrize("path", ["encode", "decode", "stream-decode"])
def test_without_the_setting_there_is_nothing(path: str) -> None:
    with gateway() as running:
        status, answer = post(running, path, {"json_data": TREE})
        assert status == 404
        assert "warp_bridge" in answer["error"]["message"]


def test_the_bridge_needs_a_key_like_everything_else() -> None:
    with gateway(server=ServerConfig(warp_bridge=True, keys=("the-key",))) as running:
        assert post(running, "encode", {"json_data": TREE})[0] == 401
