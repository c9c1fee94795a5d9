"""Values on the wire that protobuf overwrites: others are told in the receipt, and Warp's own side reads the same."""

from __future__ import annotations

import pytest

from tests.warp_server import frames, story
from tests.warp_server.messages import encode
from tests.warp_server.wire import bytes_field
from toolglot.dialects.warp.unknown_fields import JOINED, LAST_COUNTS
from toolglot.translate import ExchangeCore

INPUT = {"user_inputs": {"inputs": [{"user_query": {"query": "Go on"}}]}}
SETTINGS = {"model_config": {"base": "m"}}
BASE = encode("Request", {"input": INPUT, "settings": SETTINGS})
IN_REQUEST = {"input": 2, "settings": 3}
IN_SETTINGS = {"model_config": 1}


def receipt_lines(data: bytes) -> list[tuple[str, str, str]]:
    exchange = ExchangeCore("warp", "openai_chat")
    exchange.request(data)
    return [(line.where, line.what, line.why) for line in exchange.receipt]


def settings(*configs: bytes) -> bytes:
    inner = b"".join(bytes_field(IN_SETTINGS["model_config"], config) for config in configs)
    return encode("Request", {"input": INPUT}) + bytes_field(IN_REQUEST["settings"], inner)


CASES = {
    "a text twice": (
        settings(encode("ModelConfig", {"base": "old"}) + encode("ModelConfig", {"base": "new"})),
        ("settings.model_config.base", "2 values for one field", LAST_COUNTS),
    ),
    "a text four times": (
        settings(b"".join(encode("ModelConfig", {"base": name}) for name in "abcd")),
        ("settings.model_config.base", "4 values for one field", LAST_COUNTS),
    ),
    "a message twice": (
        settings(encode("ModelConfig", {"base": "old"}), encode("ModelConfig", {"base": "new"})),
        ("settings.model_config", "2 values for one field", JOINED),
    ),
    "two of a oneof": (
        bytes_field(IN_REQUEST["input"], encode("Input", {"resume_conversation": {}}) + encode("Input", INPUT))
        + encode("Request", {"settings": SETTINGS}),
        ("input.user_inputs", "2 values for oneof type", LAST_COUNTS),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_value_that_another_one_overwrites_is_noted_for_other_dialects(case: str) -> None:
    data, line = CASES[case]
    assert receipt_lines(data) == [line]


def test_the_last_value_counts() -> None:
    exchange = ExchangeCore("warp", "openai_chat")
    assert b'"model":"new"' in exchange.request(CASES["a text twice"][0])


@pytest.mark.parametrize("case", CASES)
def test_warps_own_side_gets_no_receipt(case: str) -> None:
    exchange = ExchangeCore("warp", "warp")
    exchange.request(CASES[case][0])
    assert not exchange.receipt


def test_a_key_of_a_map_that_comes_twice_is_noted() -> None:
    def entry(key: bytes, text: bytes) -> bytes:
        return bytes_field(2, bytes_field(1, key) + bytes_field(2, bytes_field(1, text)))

    query = bytes_field(1, b"Go on") + entry(b"a", b"old") + entry(b"b", b"other") + entry(b"a", b"new")
    inputs = bytes_field(1, bytes_field(1, query))
    data = bytes_field(IN_REQUEST["input"], bytes_field(6, inputs)) + encode("Request", {"settings": SETTINGS})
    where = "input.user_inputs.inputs[0].user_query.referenced_attachments"
    assert (where, "2 values for one key", LAST_COUNTS) in receipt_lines(data)


def test_requests_without_any_are_not_noted() -> None:
    assert receipt_lines(BASE) == []


def test_an_answer_with_an_overwritten_value_is_noted() -> None:
    event = encode("ResponseEvent", {"finished": {"done": {}}})
    finished = frames.frame_of(bytes_field(3, encode("StreamFinished", {"max_token_limit": {}}) + event[2:]))
    exchange = ExchangeCore("openai_chat", "warp")
    exchange.response(frames.stream([*story.opening(), *story.spoken("Hello")]) + finished)
    assert any(line.why == LAST_COUNTS for line in exchange.receipt)
