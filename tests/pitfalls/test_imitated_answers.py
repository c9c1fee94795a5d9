"""Answers of servers that imitate an API, and what their clients make of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.pitfalls.wires import chat, data_frame, frames
from toolglot.api import translate_request, translate_response, translate_stream
from toolglot.translate import ExchangeCore

TEXT = "Hello " * 400
PLACEHOLDER = {"input_tokens": 10, "output_tokens": 0}


def anthropic_stream(start: dict[str, Any], end: dict[str, Any]) -> bytes:
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "MiniMax-M3", "usage": start}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, **end},
        {"type": "message_stop"},
    ]
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


@pytest.mark.parametrize("end", [{}, {"usage": {"input_tokens": 10}}], ids=["no usage", "no output"])
def test_the_count_at_the_start_of_a_stream_is_no_count_of_its_output(end: dict[str, Any]) -> None:
    """pi #6567: MiniMax sends `output_tokens` only in `message_start`, as 0."""
    stream = translate_stream(anthropic_stream(PLACEHOLDER, end), "anthropic", "openai_responses")
    usage = frames(b"".join(stream))[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, len(TEXT) // 4)
    assert [line.where for line in stream.receipt.notes if line.what == "an estimate"] == ["usage.output_tokens"]


def test_an_output_of_zero_tokens_at_the_end_of_a_stream_counts() -> None:
    data = anthropic_stream({"input_tokens": 10, "output_tokens": 1}, {"usage": {"output_tokens": 0}})
    stream = translate_stream(data, "anthropic", "openai_responses")
    assert frames(b"".join(stream))[-1]["response"]["usage"]["output_tokens"] == 0


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGES = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]


def test_an_image_in_an_answer_does_not_cost_ollamas_clients_the_answer() -> None:
    """Its Python SDK raises an exception if an answer has `images`."""
    message = {"role": "assistant", "content": "See:", "images": IMAGES}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    translated = translate_response(answer, "openai_chat", "ollama")
    assert translated.json()["message"] == {"role": "assistant", "content": "See:"}
    assert [line.what for line in translated.receipt.losses] == ["image"]
    stream = translate_stream(chat({"content": "See:", "images": IMAGES}, finish="stop"), "openai_chat", "ollama")
    assert b"".join(stream).count(b'"images"') == 0
    assert [line.what for line in stream.receipt.losses] == ["image"]


def test_a_value_of_state_that_a_message_has_no_room_for_is_reported() -> None:
    """opencode #17011: GitHub Copilot sends a `reasoning_opaque` for each of two calls."""
    deltas = [{"reasoning_text": "t", "reasoning_opaque": "OPA1"}, {"content": "Hi"}, {"reasoning_opaque": "OPA2"}]
    model = "claude-sonnet-4.6"
    exchange = ExchangeCore("openai_responses", "openai_chat", model=model)
    exchange.request({"model": model, "input": "Hi", "stream": True, "store": False})
    stream = exchange.stream()
    output = frames(stream.feed(chat(*deltas, finish="stop")) + stream.close())[-1]["response"]["output"]
    user = {"role": "user", "content": "And?"}
    again = {"model": model, "input": [user, *output, user], "store": False}
    translated = translate_request(again, "openai_responses", "openai_chat", model=model)
    assert translated.json()["messages"][1]["reasoning_opaque"] == "OPA2"
    assert "reasoning_opaque" in [line.what for line in translated.receipt.losses]


PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "text"}}


@pytest.mark.parametrize(
    ("model", "is_custom"), [("MiniMax-M3", False), ("Qwen/Qwen3-Coder", False), ("gpt-5.5", True)]
)
def test_codex_gets_its_custom_calls_back_from_servers_that_have_functions_only(model: str, is_custom: bool) -> None:
    """CLIProxyAPI #5753, vllm #56285: other servers of the Responses API call custom tools as functions."""
    exchange = ExchangeCore("openai_responses", "openai_responses", model=model)
    sent = json.loads(exchange.request({"model": "m", "input": "Hi", "tools": [PATCH]}))
    assert [tool["type"] for tool in sent["tools"]] == ["custom" if is_custom else "function"]
    if is_custom:
        return
    called = {"type": "function_call", "call_id": "c", "name": "apply_patch", "arguments": '{"input":"*** Begin"}'}
    answer = {"id": "r", "object": "response", "status": "completed", "model": model, "output": [called]}
    item = json.loads(exchange.response(answer))["output"][0]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")


def test_a_rate_limit_in_a_stream_lets_claude_code_ask_again() -> None:
    """It gives up at `rate_limit_error` inside a stream, and asks again at `overloaded_error`."""
    limited = {"message": "Rate limit reached. Please try again in 1.2s.", "code": "rate_limit_exceeded"}
    data = chat({"content": "Let me look."}, finish=None, done=False) + data_frame({"error": limited})
    error = frames(b"".join(translate_stream(data, "openai_chat", "anthropic")))[-1]["error"]
    assert error["type"] == "overloaded_error"
    assert "try again in 1.2s" in error["message"]
