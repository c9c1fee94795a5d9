"""Answers of Ollama's servers, whole and as streams: quirks, and what a hostile one could cost."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from tests.exchanges import calls_of

from toolglot import DIALECTS, Receipt, fold, read_stream, translate_response, translate_stream
from toolglot.events import Fault

CALL = {"function": {"name": "first", "arguments": None}}


def line(done: bool = False, **members: Any) -> bytes:
    message = {"role": "assistant", "content": "", **members.pop("message", {})}
    return json.dumps({"model": "m", "message": message, "done": done, **members}).encode() + b"\n"


def test_a_call_whose_arguments_are_null_has_none() -> None:
    answer = line(done=True, message={"tool_calls": [CALL]}, done_reason="stop")
    (call,) = calls_of(fold(read_stream([answer], "ollama")).content)
    whole = json.loads(translate_response(answer, "ollama", "anthropic").data)
    assert (call.name, call.arguments) == ("first", "")
    assert (whole["content"][0]["input"], whole["stop_reason"]) == ({}, "tool_use")


@pytest.mark.parametrize("arguments", [[1], 7, True])
def test_arguments_of_any_other_form_are_an_error(arguments: object) -> None:
    calls = [{"function": {"name": "first", "arguments": arguments}}]
    events = [*read_stream([line(done=True, message={"tool_calls": calls})], "ollama")]
    assert isinstance(events[-1], Fault)
    assert "tool_calls[0].function.arguments" in events[-1].error.message


def test_the_zero_time_of_go_is_no_time() -> None:
    answer = line(done=True, created_at="0001-01-01T00:00:00Z")
    assert json.loads(translate_response(answer, "ollama", "openai_chat").data)["created"] == 0


def test_a_keepalive_is_a_whole_line() -> None:
    encoder = DIALECTS["ollama"].stream_encoder(None, Receipt())
    assert json.loads(encoder.keepalive()).keys() == {"model", "created_at", "message", "done"}


def seconds(stream: bytes) -> float:
    started = process_time()
    for _ in translate_stream([stream], "ollama", "openai_chat"):
        pass
    return process_time() - started


def test_log_probabilities_without_a_text_take_linear_time() -> None:
    entry = line(logprobs=[{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}])
    seconds(entry * 100)
    short, long = min(seconds(entry * 5_000) for _ in range(2)), seconds(entry * 40_000)
    assert long < 16 * short


def test_lines_that_may_be_one_document_are_bounded() -> None:
    stream = b'{"a":"\n' + b"x" * 40_000 + b"\n" + b"y" * 40_000 + b"\n"
    (*_, fault) = read_stream([stream, b'"}\n'], "ollama")
    assert isinstance(fault, Fault)
    document = b'{\n  "error": {\n    "message": "too much",\n    "code": 429\n  }\n}\n'
    (*_, fault) = read_stream([document], "ollama")
    assert isinstance(fault, Fault)
    assert fault.error.message == "too much"


@pytest.mark.parametrize("members", [{"response": "Hi"}, {"response": ""}])
def test_an_answer_to_a_prompt_keeps_its_members(members: dict[str, str]) -> None:
    answer = {"model": "m", **members, "done": True, "done_reason": "stop"}
    decoded = DIALECTS["ollama"].decode_response(json.dumps(answer).encode())
    encoded = json.loads(DIALECTS["ollama"].encode_response(decoded, None, Receipt()))
    assert {name: encoded[name] for name in ("response", "message") if name in encoded} == members
