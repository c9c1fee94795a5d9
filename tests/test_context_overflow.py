"""Context overflow: each vendor's words are recognised, and each client is told in the form on which it compacts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.errors import CONTEXT_OVERFLOW, ContextOverflow
from toolglot.wire import json
from toolglot.wire.context_overflow import OVERFLOW_PATTERNS

Counts = tuple[int | None, int | None, int | None]

OPENAI_MAXIMUM = "This model's maximum context length is 8192 tokens"

# What servers say, and the counts in it: input, output, limit.
MESSAGES: list[tuple[str, Counts]] = [
    ("prompt is too long: 213462 tokens > 200000 maximum", (213462, None, 200000)),
    (
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or"
        " `max_tokens` and try again",
        (199759, 8192, 200000),
    ),
    (
        "input length and max_tokens exceed context limit: 90402 + 116650 > 204648, decrease input length",
        (90402, 116650, 204648),
    ),
    ("The prompt is too long: 281000, model maximum context length: 262143", (281000, None, 262143)),
    (f"{OPENAI_MAXIMUM}. However, your messages resulted in 8545 tokens. Please reduce", (8545, None, 8192)),
    (
        f"{OPENAI_MAXIMUM}, however you requested 10346 tokens (10341 in your prompt; 5 for the completion).",
        (10341, 5, 8192),
    ),
    (
        f"{OPENAI_MAXIMUM}. However, you requested 8927 tokens (7835 in the messages, 92 in the functions, 1000 in the"
        " completion). Please reduce the length of the messages, functions, or completion.",
        (7927, 1000, 8192),
    ),
    (f"{OPENAI_MAXIMUM}. However, you requested 351430 tokens. Please reduce the length", (351430, None, 8192)),
    (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 152343 tokens (119343 of"
        " text input, 1000 of tool input, 32000 in the output). Please reduce the length of either one",
        (120343, 32000, 131072),
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 65536"
        " tokens and your request has 57879 input tokens (8192 > 65536 - 57879). None",
        (57879, 8192, 65536),
    ),
    (f"{OPENAI_MAXIMUM}. However, your request has 12000 input tokens. Please reduce", (12000, None, 8192)),
    (
        "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your"
        " prompt contains at least 134145 input tokens, for a total of at least 262145 tokens.",
        (134145, 128000, 262144),
    ),
    ("The decoder prompt (length 9001) is longer than the maximum model length of 4096.", (9001, None, 4096)),
    ("Input prompt (2664 tokens) is too long and exceeds limit of 2048", (2664, None, 2048)),
    ("The prompt is longer than the maximum model length.", (None, None, None)),
    ("The input (61709 tokens) is longer than the model's context length (40960 tokens).", (61709, None, 40960)),
    (
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of"
        " 132528 tokens: 66992 tokens from the input messages and 65536 tokens for the completion.",
        (66992, 65536, 131072),
    ),
    ("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", (160062, None, 59862)),
    ("request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it", (14429, None, 8192)),
    ("the request exceeds the available context size. try increasing the context size", (None, None, None)),
    ("Context size has been exceeded.", (None, None, None)),
    ("Requested tokens (516) exceed context window of 512", (516, None, 512)),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>="
        " n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
        (13055, None, 4096),
    ),
    (
        "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context"
        " length of only 7866 tokens, which is not enough.",
        (10136, None, 7866),
    ),
    ("The number of tokens to keep from the initial prompt is greater than the context length.", (None, None, None)),
    ("prompt too long; exceeded max context length by 4096 tokens", (None, None, None)),
    ("the input length exceeds the context length", (None, None, None)),
    (
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        (1200293, None, 1048576),
    ),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", (None, None, 1048576)),
    (
        "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576."
        " Reduce the input token count and try again.",
        (1251952, None, 1048576),
    ),
    ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", (131393, None, 131040)),
    ("Input length (265330) exceeds model's maximum context length (262144).", (265330, None, 262144)),
    (
        "The maximum context length of DeepSeek-V3-0324 is 32768. However, answering your request will take 39732"
        " tokens. Please reduce the length of the messages",
        (39732, None, 32768),
    ),
    ("Request length 71599 + 2048 is greater than max_seq_len 65536", (71599, 2048, 65536)),
    ("Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)", (5152, None, 2048)),
    (
        "Too many input tokens. Max input tokens: 8192, request input token count: 9001 ",
        (9001, None, 8192),
    ),
    ("The model returned the following errors: Input is too long for requested model.", (None, None, None)),
    (
        "Prompt contains 300,000 tokens and 0 draft tokens, too large for model with 131,072 maximum context length",
        (300000, None, 131072),
    ),
    ("Request too large for model with 131072 maximum context length", (None, None, 131072)),
    (
        "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
        (42328, None, 40000),
    ),
    ("Please reduce the length of the messages or completion.", (None, None, None)),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", (537812, None, 131072)),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 285541 tokens.",
        (285541, None, 272000),
    ),
    ("Your input exceeds the context window of this model. Please adjust your input", (None, None, None)),
    ("prompt token count of 190000 exceeds the limit of 128000", (190000, None, 128000)),
    ("Request body too large for gpt-4o model. Max size: 8000 tokens.", (None, None, 8000)),
    ("Your request exceeded model token limit: 262144 (requested: 300000)", (300000, None, 262144)),
    ("Invalid request: Your request exceeded model token limit", (None, None, None)),
    ("invalid params, context window exceeds limit (2013)", (None, None, None)),
    ("Prompt exceeds max length", (None, None, None)),
    ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]", (None, None, 98304)),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769. Given: 32000 `inputs` tokens and"
        " 4096 `max_new_tokens`",
        (32000, 4096, 32769),
    ),
    ("Input validation error: `inputs` must have less than 4095 tokens. Given: 5000", (5000, None, 4095)),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5005.", (5005, None, 4081)),
    ("too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.", (None, None, None)),
    ("litellm.ContextWindowExceededError: something of a provider", (None, None, None)),
    ("You have reached the maximum context limit", (None, None, None)),
    ("context_length exceeded", (None, None, None)),
    ("The conversation exceeds the model's context window", (None, None, None)),
]

FORMS: dict[str, Any] = {
    "openai_chat": lambda message: {"error": {"message": message, "type": "BadRequestError", "code": 400}},
    "openai_responses": lambda message: {"error": {"message": message, "type": "invalid_request_error", "code": None}},
    "anthropic": lambda message: {"type": "error", "error": {"type": "invalid_request_error", "message": message}},
    "gemini": lambda message: {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}},
}
"""How an upstream of each dialect refuses a request."""

CLIENTS = tuple(FORMS)


def told(client: str, upstream: str, body: Any, status: int = 400) -> tuple[int, dict[str, Any]]:
    """The status and the inner object of the error that a client gets."""
    read = DIALECTS[upstream].decode_error(status, {}, json.encode(body))
    answer = DIALECTS[client].encode_error(read)
    return answer.status, json.decode(answer.body)["error"]


@pytest.mark.parametrize("upstream", CLIENTS)
@pytest.mark.parametrize(("message", "counts"), MESSAGES, ids=[message[:40] for message, _ in MESSAGES])
def test_the_words_of_every_vendor_are_a_context_overflow_with_its_counts(
    upstream: str, message: str, counts: Counts
) -> None:
    for status in (400, 413, 500):
        error = DIALECTS[upstream].decode_error(status, {}, json.encode(FORMS[upstream](message)))
        assert (error.kind, error.status, error.code) == ("bad_request", 400, CONTEXT_OVERFLOW)
        assert error.overflow == ContextOverflow(input_tokens=counts[0], output_tokens=counts[1], limit=counts[2])
    page = DIALECTS[upstream].decode_error(400, {}, message.encode())
    assert page.code == CONTEXT_OVERFLOW


def test_every_wording_has_a_message_that_it_is_the_first_to_find() -> None:
    first = {next(one.pattern for one in OVERFLOW_PATTERNS if one.pattern.search(message)) for message, _ in MESSAGES}
    assert [one.pattern.pattern for one in OVERFLOW_PATTERNS if one.pattern not in first] == []


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", CLIENTS)
@pytest.mark.parametrize("message", [message for message, _ in MESSAGES])
def test_every_client_is_told_in_words_that_it_knows(client: str, upstream: str, message: str) -> None:
    status, error = told(client, upstream, FORMS[upstream](message), 500)
    assert status == 400
    assert DIALECTS[client].answer.overflow_words.search(json.encode(error))


SGLANG = {
    "object": "error",
    "message": next(message for message, counts in MESSAGES if counts == (61709, None, 40960)),
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}


def test_chat_clients_get_the_code_and_words_of_openai_as_they_came() -> None:
    message = MESSAGES[3][0]
    status, error = told("openai_chat", "openai_chat", FORMS["openai_chat"](message))
    assert (status, error) == (
        400,
        {"message": message, "type": "invalid_request_error", "param": None, "code": CONTEXT_OVERFLOW},
    )


def test_chat_clients_get_openais_words_before_those_of_another_vendor() -> None:
    _, error = told("openai_chat", "anthropic", FORMS["anthropic"]("prompt is too long: 9 tokens > 8 maximum"))
    assert error["message"] == (
        "This model's maximum context length is 8 tokens. However, your messages resulted in 9 tokens."
        " The upstream said: prompt is too long: 9 tokens > 8 maximum"
    )


def test_anthropic_clients_get_the_exact_sentence_and_beside_it_what_the_upstream_said() -> None:
    _, error = told("anthropic", "openai_chat", SGLANG)
    assert error["type"] == "invalid_request_error"
    # Claude Code compares with this expression.
    assert re.fullmatch(r"prompt is too long: \d+ tokens > \d+ maximum", error["message"])
    assert error["message"] == "prompt is too long: 61709 tokens > 40960 maximum"
    assert error["details"] == {"error_code": CONTEXT_OVERFLOW, "upstream_message": SGLANG["message"]}


def test_anthropic_clients_are_told_when_a_lower_output_limit_would_do() -> None:
    vllm = next(message for message, counts in MESSAGES if counts == (57879, 8192, 65536))
    _, error = told("anthropic", "openai_chat", FORMS["openai_chat"](vllm))
    # Claude Code reads the three numbers and asks again with less.
    assert re.match(r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+)", error["message"]), (
        error
    )
    assert "57879 + 8192 > 65536" in error["message"]


def test_gemini_clients_get_googles_sentence() -> None:
    status, error = told("gemini", "openai_chat", SGLANG)
    assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["message"] == "The input token count (61709) exceeds the maximum number of tokens allowed (40960)."
    assert error["details"][0]["metadata"] == {"upstream_message": SGLANG["message"]}


def test_llama_cpp_has_the_counts_beside_its_message() -> None:
    body = {
        "error": {
            "code": 500,
            "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 1407,
            "n_ctx": 256,
        }
    }
    _, error = told("anthropic", "openai_chat", body, 500)
    assert error["message"] == "prompt is too long: 1407 tokens > 256 maximum"


def test_openrouter_hides_the_words_of_its_provider_in_the_metadata() -> None:
    raw = '{"error":{"message":"This model\'s maximum prompt length is 10 but the request contains 11 tokens."}}'
    metadata = {"provider_name": "xAI", "raw": raw}
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}}
    _, error = told("anthropic", "openai_chat", body)
    assert error["message"] == "prompt is too long: 11 tokens > 10 maximum"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Rate limit reached: Limit 30000, Requested 35000 tokens per minute. maximum context length"),
        (429, "Too many tokens, please wait before trying again."),
        (400, "Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576"),
        (400, "max_tokens is too large: 65536. This model supports at most 32768 completion tokens"),
        (400, "Malformed input request: expected maxLength: 42000, actual: 46735"),
        (413, "Request Entity Too Large"),
        (401, "prompt is too long for your plan"),
    ],
)
@pytest.mark.parametrize("upstream", CLIENTS)
def test_what_only_sounds_like_it_is_none(upstream: str, status: int, message: str) -> None:
    error = DIALECTS[upstream].decode_error(status, {}, json.encode({"error": {"message": message}}))
    assert error.code != CONTEXT_OVERFLOW
    assert error.overflow is None


# Inside a stream

BEGUN = {
    "openai_chat": b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n',
    "anthropic": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":'
    b'"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,'
    b'"output_tokens":1}}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Hi"}}\n\n',
    "gemini": b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"index":0}]}\n\n',
    "openai_responses": b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":'
    b'{"id":"r","object":"response","created_at":1,"model":"m","status":"in_progress","output":[]}}\n\n',
}
REQUESTS: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]},
    "openai_responses": {"model": "m", "stream": True, "input": "hi"},
    "anthropic": {"model": "m", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}


@pytest.mark.parametrize("begun", [True, False], ids=["amid", "first"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", CLIENTS)
def test_an_overflow_inside_a_stream_is_told_in_the_clients_words(client: str, upstream: str, begun: bool) -> None:
    exchange = Exchange(client, upstream)
    exchange.request(REQUESTS[client])
    translation = exchange.stream()
    body = {"type": "error", **FORMS["openai_chat"](SGLANG["message"])} if upstream != "gemini" else None
    frame = b"data: " + json.encode(body or FORMS["gemini"](SGLANG["message"])) + b"\n\n"
    if upstream == "anthropic":
        frame = b"event: error\n" + frame
    written = translation.feed(BEGUN[upstream] if begun else b"") + translation.feed(frame) + translation.close()
    last = written.split(b"data: ")[-1 if client != "openai_chat" else -2 if b"[DONE]" in written else -1]
    assert DIALECTS[client].answer.overflow_words.search(last), written.decode()
    assert translation.fault is not None
    assert translation.fault.code == CONTEXT_OVERFLOW
    if client == "openai_responses" and client != upstream:
        assert b'"type":"response.failed"' in last
