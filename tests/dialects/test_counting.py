"""The endpoints that count tokens: a client's request in, the upstream's request out, the count both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialect import Counting
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.ir import Request, Text, replace
from toolglot.receipt import Receipt
from toolglot.tokens import estimate
from toolglot.translate import ExchangeCore

WITH_ENDPOINT = [name for name, dialect in DIALECTS.items() if dialect.counting is not None]

BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "claude-x",
        "system": "Be brief.",
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "hello"}],
    },
    "openai_responses": {
        "model": "gpt-x",
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}],
        "input": [{"type": "message", "role": "user", "content": "hello"}],
    },
    "gemini": {
        "generateContentRequest": {
            "model": "models/gemini-x",
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": {"type": "object"}}]}],
            "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        }
    },
}
PATHS = {
    "anthropic": "/v1/messages/count_tokens",
    "openai_responses": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/gemini-x:countTokens",
}
ANSWERS = {
    "anthropic": {"input_tokens": 42},
    "openai_responses": {"object": "response.input_tokens", "input_tokens": 42},
    "gemini": {"totalTokens": 42},
}


def counting(name: str) -> Counting:
    found = DIALECTS[name].counting
    assert found is not None
    return found


def decode(name: str, body: dict[str, Any]) -> Request:
    return counting(name).decode_request(json.dumps(body).encode())


def encode(name: str, request: Request) -> dict[str, Any]:
    wire: dict[str, Any] = json.loads(counting(name).encode_request(request, Receipt()))
    return wire


def test_chat_completions_alone_has_no_endpoint_that_counts() -> None:
    assert WITH_ENDPOINT == ["openai_responses", "anthropic", "gemini"]


@pytest.mark.parametrize("name", WITH_ENDPOINT)
def test_a_request_to_count_comes_back_as_it_was(name: str) -> None:
    request = decode(name, BODIES[name])
    assert [message.role for message in request.messages] == ["system", "user"]
    assert [block.text for message in request.messages for block in message.content if isinstance(block, Text)] == [
        "Be brief.",
        "hello",
    ]
    assert encode(name, request) == BODIES[name]
    assert counting(name).path(replace(request, stream=True)) == PATHS[name]


@pytest.mark.parametrize("name", WITH_ENDPOINT)
def test_a_count_has_the_shape_of_the_dialect(name: str) -> None:
    answer = counting(name).encode_count(42)
    assert json.loads(answer) == ANSWERS[name]
    assert counting(name).decode_count(answer) == 42


@pytest.mark.parametrize("name", WITH_ENDPOINT)
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"error":{"message":"no"}}',
        b'{"input_tokens":"x","totalTokens":"x"}',
        b'{"input_tokens":-1,"totalTokens":-1}',
        b'{"input_tokens":1.5,"totalTokens":1.5}',
    ],
)
def test_an_answer_without_a_count_is_refused(name: str, answer: bytes) -> None:
    with pytest.raises(DecodeError):
        counting(name).decode_count(answer)


def test_gemini_does_not_write_a_zero() -> None:
    assert counting("gemini").decode_count(b"{}") == 0
    with pytest.raises(DecodeError, match="input_tokens"):
        counting("anthropic").decode_count(b"{}")


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", WITH_ENDPOINT)
def test_what_concerns_the_answer_alone_is_not_sent_to_be_counted(client: str, upstream: str) -> None:
    asked = Request(
        model="claude-x", messages=decode("anthropic", BODIES["anthropic"]).messages, max_output_tokens=100, stream=True
    )
    sent = ExchangeCore(client, upstream).rewrite(replace(asked, temperature=0.5, user="u"))
    wire = encode(upstream, sent)
    left = {"max_tokens", "max_output_tokens", "stream", "metadata", "temperature", "safety_identifier", "store"}
    assert not left & wire.keys()


@pytest.mark.parametrize("client", WITH_ENDPOINT)
@pytest.mark.parametrize("upstream", WITH_ENDPOINT)
def test_a_request_can_be_counted_by_an_upstream_of_any_dialect(client: str, upstream: str) -> None:
    request = replace(decode(client, BODIES[client]), model="claude-x")
    sent = ExchangeCore(client, upstream).rewrite(request)
    again = decode(upstream, encode(upstream, sent))
    assert [block.text for block in again.messages[-1].content if isinstance(block, Text)] == ["hello"]
    assert [getattr(tool, "name", None) for tool in again.tools] == ["weather"]
    assert estimate(request) == pytest.approx(estimate(again), abs=20)


def test_a_count_of_anthropic_needs_no_limit_and_says_what_is_missing() -> None:
    assert decode("anthropic", {"model": "m", "messages": []}).max_output_tokens is None
    with pytest.raises(DecodeError, match=r"\$\.messages"):
        decode("anthropic", {"model": "m"})


def test_a_count_of_responses_needs_no_input() -> None:
    assert encode("openai_responses", decode("openai_responses", {"model": "m"})) == {"model": "m"}
    continued = {"model": "m", "previous_response_id": "resp_1"}
    assert encode("openai_responses", decode("openai_responses", continued)) == continued
    assert encode("openai_responses", decode("openai_responses", {"model": "m", "input": "hi"})) == {
        "model": "m",
        "input": "hi",
    }


def test_contents_alone_are_counted_without_a_wrapper() -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    assert encode("gemini", replace(decode("gemini", body), model="x")) == body


def test_both_spellings_and_the_form_of_google_cloud_are_read() -> None:
    inner = BODIES["gemini"]["generateContentRequest"]
    wrapped = decode("gemini", BODIES["gemini"])
    snake = {key.replace("systemInstruction", "system_instruction"): value for key, value in inner.items()}
    assert decode("gemini", {"generate_content_request": snake}) == wrapped
    assert decode("gemini", inner) == wrapped
    assert wrapped.model == "gemini-x"


def test_a_wrong_request_within_the_wrapper_is_told_with_its_whole_path() -> None:
    with pytest.raises(DecodeError) as raised:
        decode("gemini", {"generateContentRequest": {"contents": [{"parts": 7}]}})
    assert raised.value.where.startswith("$.generateContentRequest.contents[0]")
    with pytest.raises(DecodeError, match="either here or in contents"):
        decode("gemini", {**BODIES["gemini"], "contents": []})
    with pytest.raises(DecodeError, match=r"\$\.contents"):
        decode("gemini", {})


def test_the_arguments_of_a_call_stay_verbatim_within_the_wrapper() -> None:
    content = '{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1.0}}}]}'
    request = counting("gemini").decode_request(f'{{"generateContentRequest":{{"contents":[{content}]}}}}'.encode())
    assert b'{"a":1.0}' in counting("gemini").encode_request(replace(request, model="x"), Receipt())


TAKEN: dict[str, dict[str, Any]] = {
    "anthropic": {
        **BODIES["anthropic"],
        "cache_control": {"type": "ephemeral"},
        "compaction": {"x": 1},
        "context_management": {"edits": []},
        "mcp_servers": [{"type": "url", "name": "m", "url": "https://m.example"}],
        "output_config": {"effort": "low"},
        "speed": "fast",
        "thinking": {"type": "adaptive"},
        "tool_choice": {"type": "any"},
    },
    "openai_responses": {
        **BODIES["openai_responses"],
        "conversation": "conv_1",
        "parallel_tool_calls": False,
        "personality": "friendly",
        "previous_response_id": "resp_1",
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "tool_choice": "required",
        "truncation": "auto",
    },
}


@pytest.mark.parametrize("name", TAKEN)
def test_every_member_that_is_counted_is_sent(name: str) -> None:
    assert encode(name, decode(name, TAKEN[name])) == TAKEN[name]


@pytest.mark.parametrize("name", WITH_ENDPOINT)
@pytest.mark.parametrize("body", [b"[]", b"7", b"null", b"{"])
def test_what_is_no_request_is_not_counted(name: str, body: bytes) -> None:
    with pytest.raises(DecodeError):
        counting(name).decode_request(body)


def test_a_request_stands_in_one_wrapper_only() -> None:
    inner = BODIES["gemini"]["generateContentRequest"]
    with pytest.raises(DecodeError) as raised:
        decode("gemini", {"generateContentRequest": inner, "generate_content_request": inner})
    assert raised.value.where == "$.generateContentRequest"


@pytest.mark.parametrize(("model", "named"), [("x", "models/x"), ("tunedModels/x", "tunedModels/x")])
def test_a_wrapped_request_names_its_model_as_a_resource(model: str, named: str) -> None:
    request = replace(decode("gemini", BODIES["gemini"]), model=model)
    assert encode("gemini", request)["generateContentRequest"]["model"] == named


def test_the_model_of_a_wrapped_request_is_no_field_that_rides_along() -> None:
    assert decode("gemini", BODIES["gemini"]).native.get("gemini", {}).keys().isdisjoint({"model"})
    odd = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "model": 7}
    assert decode("gemini", odd).model == ""


@pytest.mark.parametrize("name", WITH_ENDPOINT)
def test_an_answer_that_is_an_error_says_where(name: str) -> None:
    with pytest.raises(DecodeError) as raised:
        counting(name).decode_count(b'{"error":{},"input_tokens":1,"totalTokens":1}')
    assert raised.value.where == "$.error"
