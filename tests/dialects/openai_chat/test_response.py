"""Chat Completions responses and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT
from toolglot.errors import ApiError, DecodeError, RateLimit, UpstreamError
from toolglot.ir import Citation, Refusal, Request, Response, Stop, Text, Thinking, ToolCall, Usage
from toolglot.receipt import Receipt

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
FULL: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1763164800,
    "model": "gpt-x",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "See here.",
                "refusal": None,
                "reasoning_content": "Hm.",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {"start_index": 0, "end_index": 3, "url": "https://x", "title": "X"},
                    }
                ],
                "tool_calls": [CALL, {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free"}}],
            },
            "finish_reason": "tool_calls",
            "logprobs": None,
        },
        {"index": 1, "message": {"role": "assistant", "content": "other"}, "finish_reason": "stop"},
    ],
    "usage": {
        "prompt_tokens": 50,
        "completion_tokens": 30,
        "total_tokens": 80,
        "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 5, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
    "system_fingerprint": "fp",
}


def encode(response: Response, request: Request | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(OPENAI_CHAT.encode_response(response, request, Receipt()))
    return body


def test_a_rich_response_is_read_and_written_back_exactly() -> None:
    response = OPENAI_CHAT.decode_response(json.dumps(FULL).encode())
    assert [type(block) for block in response.content] == [Thinking, Text, ToolCall, ToolCall]
    text = response.content[1]
    assert isinstance(text, Text)
    assert [citation.url for citation in text.citations] == ["https://x"]
    assert response.stop == Stop("tool_calls", "tool_calls")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.cached_tokens, response.usage.cache_write_tokens) == (50, 10, 5)
    assert (response.usage.output_tokens, response.usage.reasoning_tokens) == (30, 20)
    assert encode(response) == FULL


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "x", "annotations": []},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": "x", "reasoning": "y", "mood": {"good": True}},
    ],
)
def test_a_message_is_written_back_exactly(message: dict[str, Any]) -> None:
    body = {**FULL, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assert encode(OPENAI_CHAT.decode_response(json.dumps(body).encode())) == body


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("model_length", "context_full"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("sensitive", "filtered"),
        ("eos", "end"),
        ("STOP", "end"),
    ],
)
def test_the_finish_reasons_of_servers_that_imitate_the_api_are_known(word: str, reason: str) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": word}
    response = OPENAI_CHAT.decode_response(json.dumps({**FULL, "choices": [choice]}).encode())
    assert response.stop.reason == reason
    assert encode(response)["choices"][0]["finish_reason"] == word


@pytest.mark.parametrize(
    ("word", "kind"),
    [("error", "server"), ("abort", "server"), ("insufficient_system_resource", "overloaded")],
)
def test_an_answer_that_its_server_broke_off_is_an_error(word: str, kind: str) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": word}
    with pytest.raises(UpstreamError) as refused:
        OPENAI_CHAT.decode_response(json.dumps({**FULL, "choices": [choice]}).encode())
    assert (refused.value.error.kind, refused.value.error.code) == (kind, word)


def test_reasoning_in_both_fields_is_read_once() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "Hm.", "reasoning": "Hm."}
    body = {**FULL, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    response = OPENAI_CHAT.decode_response(json.dumps(body).encode())
    assert [block.text for block in response.content if isinstance(block, Thinking)] == ["Hm."]
    assert encode(response)["choices"] == body["choices"]
    asked = {"model": "m", "messages": [message]}
    request = OPENAI_CHAT.decode_request(json.dumps(asked).encode())
    assert [type(block) for block in request.messages[0].content] == [Thinking, Text]
    assert json.loads(OPENAI_CHAT.encode_request(request, Receipt())) == asked


def test_an_unknown_finish_reason_comes_back_as_it_was() -> None:
    body = {**FULL, "choices": [{**FULL["choices"][0], "finish_reason": "novel"}]}
    response = OPENAI_CHAT.decode_response(json.dumps(body).encode())
    assert response.stop == Stop("other", "novel")
    assert encode(response) == body


def test_a_response_from_elsewhere_has_everything_that_the_official_types_require() -> None:
    response = Response(
        id="r",
        model="m",
        content=(Text(text="a"), Text(text="b", citations=(Citation(url="https://x"),)), ToolCall(id="1", name="f")),
        stop=Stop("tool_calls", "tool_use"),
        usage=Usage(input_tokens=5, output_tokens=2, cached_tokens=1),
    )
    assert encode(response) == {
        "id": "r",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "ab",
                    "refusal": None,
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {
                                "start_index": 1,
                                "end_index": 2,
                                "url": "https://x",
                                "title": "https://x",
                            },
                        }
                    ],
                    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
    }


def test_a_client_that_asked_with_functions_is_answered_with_a_function_call() -> None:
    asked = OPENAI_CHAT.decode_request(b'{"model":"m","messages":[],"functions":[{"name":"f"}]}')
    response = Response(content=(ToolCall(id="1", name="f", arguments='{"x":1}'),), stop=Stop("tool_calls"))
    choice = encode(response, asked)["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "function_call"


def test_a_second_call_for_a_client_of_functions_is_reported_as_lost() -> None:
    asked = OPENAI_CHAT.decode_request(b'{"model":"m","messages":[],"functions":[{"name":"f"}]}')
    response = Response(content=(ToolCall(id="1", name="f"), ToolCall(id="2", name="g")), stop=Stop("tool_calls"))
    receipt = Receipt()
    OPENAI_CHAT.encode_response(response, asked, receipt)
    assert [line.what for line in receipt.losses] == ["call of g"]


@pytest.mark.parametrize(("arguments", "complete"), [("", False), ('{"a":', False), ('{"a":1}', True)])
def test_the_last_call_of_an_answer_that_was_cut_is_complete_if_its_arguments_are(
    arguments: str, complete: bool
) -> None:
    calls = [CALL, {**CALL, "id": "b", "function": {"name": "g", "arguments": arguments}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    body = {**FULL, "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    response = OPENAI_CHAT.decode_response(json.dumps(body).encode())
    assert [block.complete for block in response.content if isinstance(block, ToolCall)] == [True, complete]
    assert encode(response) == body


def test_a_call_that_was_cut_before_its_arguments_is_given_none() -> None:
    response = Response(content=(ToolCall(id="1", name="f", complete=False),), stop=Stop("length"))
    assert encode(response)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == ""


def test_parts_that_only_this_api_knows_stay_in_their_place() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "novel"}, {"type": "text", "text": "b"}]
    choice = {"index": 0, "message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}
    body = {**FULL, "choices": [choice]}
    assert (
        json.loads(OPENAI_CHAT.encode_response(OPENAI_CHAT.decode_response(json.dumps(body).encode()), None, Receipt()))
        == body
    )


def test_a_refusal_without_text_is_a_content_filter() -> None:
    assert encode(Response(stop=Stop("refusal")))["choices"][0]["finish_reason"] == "content_filter"
    with_text = encode(Response(content=(Refusal(text="No."),), stop=Stop("refusal")))["choices"][0]
    assert (with_text["finish_reason"], with_text["message"]["refusal"]) == ("stop", "No.")


# Bodies that real servers send with status 200 where a response should be, and what they mean.
ERRORS_IN_200: list[tuple[bytes, str, str]] = [
    (b'{"error":{"message":"m","type":"server_error","code":null}}', "server", "m"),
    (b'{"object":"error","message":"m","type":"BadRequestError","code":400}', "bad_request", "m"),
    (b'{"detail":"m"}', "server", "m"),
    (b'{"error":"m"}', "server", "m"),
    (b'{"error":{"message":"m","code":"rate_limit_exceeded"}}', "rate_limit", "m"),
]


@pytest.mark.parametrize(("body", "kind", "message"), ERRORS_IN_200)
def test_an_error_with_status_200_is_raised_as_one(body: bytes, kind: str, message: str) -> None:
    with pytest.raises(UpstreamError) as raised:
        OPENAI_CHAT.decode_response(body)
    assert (raised.value.error.kind, raised.value.error.message) == (kind, message)


def test_a_response_without_choices_is_refused() -> None:
    with pytest.raises(DecodeError, match="at least one choice"):
        OPENAI_CHAT.decode_response(b'{"id":"x"}')


def test_an_http_error_keeps_its_status_words_and_limits() -> None:
    headers = {
        "Retry-After": "3",
        "x-request-id": "req_1",
        "x-ratelimit-limit-tokens": "10",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    body = b'{"error":{"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}'
    error = OPENAI_CHAT.decode_error(429, headers, body)
    assert (error.kind, error.status, error.retry_after, error.request_id) == ("rate_limit", 429, 3.0, "req_1")
    assert error.limits == (RateLimit("tokens", "10", "0", "6m0s"),)
    again = OPENAI_CHAT.encode_error(error)
    assert again.status == 429
    assert json.loads(again.body) == json.loads(body)
    assert again.headers["retry-after"] == "3"
    assert again.headers["x-ratelimit-reset-tokens"] == "6m0s"


def test_a_page_of_some_proxy_becomes_the_message() -> None:
    error = OPENAI_CHAT.decode_error(502, {}, b"Bad Gateway")
    assert (error.kind, error.message) == ("server", "Bad Gateway")


def test_an_overloaded_upstream_is_503_for_openai_clients() -> None:
    assert OPENAI_CHAT.encode_error(ApiError(kind="overloaded", message="m", status=529)).status == 503
