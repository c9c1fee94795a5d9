"""Reasoning that is no plain text: Databricks' content parts with signatures, and Envoy AI Gateway's objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import DIALECTS, Exchange, Receipt, fold, read_stream, translate_response, translate_stream
from toolglot.ir import Thinking

CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PART: dict[str, Any] = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I think", "signature": "c2ln"}],
}
ASKED: dict[str, Any] = {"role": "user", "content": "Hello"}


def answer(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def stream(*deltas: dict[str, Any], finish: str = "stop") -> bytes:
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    frames = [
        b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() for choice in choices
    ]
    return b"".join(frames) + b"data: [DONE]\n\n"


def piece(text: str, signature: str = "") -> dict[str, Any]:
    return {
        "content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": text, "signature": signature}]}]
    }


WHOLE = answer({"content": [PART, {"type": "text", "text": "so"}], "tool_calls": [CALL]}, "tool_calls")
STREAM = stream(
    piece("I "),
    piece("think"),
    piece("", "c2ln"),
    {"content": "so"},
    {"tool_calls": [{"index": 0, **CALL}]},
    finish="tool_calls",
)


@pytest.mark.parametrize("streams", [False, True])
def test_a_signature_comes_back_in_the_part_that_it_came_in(streams: bool) -> None:
    first = {"model": "m", "max_tokens": 9, "stream": streams, "messages": [ASKED]}
    exchange = Exchange("anthropic", "openai_chat", model="databricks-claude")
    exchange.request(first)
    if streams:
        translation = exchange.stream()
        said = fold(read_stream([translation.feed(STREAM) + translation.close()], "anthropic"))
        content = json.loads(DIALECTS["anthropic"].encode_response(said, None, Receipt()))["content"]
    else:
        content = json.loads(exchange.response(json.dumps(WHOLE).encode()))["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]
    assert not exchange.receipt.losses
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a cat"}]}
    second = Exchange("anthropic", "openai_chat", model="databricks-claude")
    sent = json.loads(second.request({**first, "messages": [ASKED, {"role": "assistant", "content": content}, result]}))
    assert sent["messages"][1] == {
        "role": "assistant",
        "content": [PART, {"type": "text", "text": "so"}],
        "tool_calls": [CALL],
    }


def test_a_stream_of_such_parts_is_what_the_whole_answer_is() -> None:
    codec = DIALECTS["openai_chat"]
    whole = codec.decode_response(json.dumps(WHOLE).encode())
    assert fold(read_stream([STREAM], "openai_chat")).content == whole.content
    assert json.loads(codec.encode_response(whole, None, Receipt()))["choices"] == WHOLE["choices"]


def test_no_other_vendor_gets_the_signature() -> None:
    history = [ASKED, {"role": "assistant", "content": [PART, {"type": "text", "text": "so"}]}, ASKED]
    exchange = Exchange("openai_chat", "anthropic")
    assert b"c2ln" not in exchange.request({"model": "m", "messages": history})
    assert "messages[1]" in [line.where for line in exchange.receipt]


@pytest.mark.parametrize(
    "reasoning",
    [{"text": "I think"}, {"text": "I think", "signature": "c2ln"}, {"reasoningText": {"text": "I think"}}],
)
def test_reasoning_that_is_an_object_is_read(reasoning: dict[str, Any]) -> None:
    lost = ["signature"] if "signature" in reasoning else []
    body = json.dumps(answer({"content": "so", "reasoning_content": reasoning})).encode()
    whole = translate_response(body, "openai_chat", "anthropic")
    assert json.loads(whole.data)["content"][0]["thinking"] == "I think"
    streamed = translate_stream(
        [stream({"reasoning_content": reasoning}, {"content": "so"})], "openai_chat", "anthropic"
    )
    (thought, *_) = fold(read_stream([b"".join(streamed)], "anthropic")).content
    assert isinstance(thought, Thinking)
    assert thought.text == "I think"
    for receipt in (whole.receipt, streamed.receipt):
        assert [line.where.rpartition(".")[2] for line in receipt.losses] == lost


@pytest.mark.parametrize("reasoning", [{"redactedContent": "AAAA"}, ["I think"], {"text": 7}])
def test_reasoning_of_any_other_form_is_a_loss_and_no_end(reasoning: object) -> None:
    streamed = translate_stream(
        [stream({"reasoning_content": reasoning}, {"content": "so"})], "openai_chat", "anthropic"
    )
    assert b"message_stop" in b"".join(streamed)
    assert len(streamed.receipt.losses) == 1


def test_an_encoded_stream_reports_that_the_signature_is_lost() -> None:
    receipt = Receipt()
    encoder = DIALECTS["openai_chat"].stream_encoder(None, receipt)
    data = b"".join(encoder.feed(event) for event in read_stream([STREAM], "openai_chat"))
    said = fold(read_stream([data], "openai_chat"))
    assert [block.text for block in said.content if isinstance(block, Thinking)] == ["I think"]
    assert [line.what for line in receipt.losses] == ["the signature of reasoning"]
