"""An exchange as its users see it: what it takes, what it raises, how streams begin and end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES
from tests.forms import text_of
from toolglot import (
    DIALECTS,
    ApiError,
    DecodeError,
    Exchange,
    LossError,
    UnknownDialectError,
    UpstreamDecodeError,
    UpstreamError,
    translate_request,
    translate_stream,
)
from toolglot.errors import STATUS, ErrorKind
from toolglot.receipt import Receipt

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%b]}\n\n'
TEXT = CHUNK % b'{"index":0,"delta":{"content":"Hi"},"finish_reason":null}'
STOP = CHUNK % b'{"index":0,"delta":{},"finish_reason":"stop"}'
DONE = b"data: [DONE]\n\n"
ANSWER: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}


def test_a_document_may_be_bytes_text_or_parsed() -> None:
    forms = (CHAT, json.dumps(CHAT), json.dumps(CHAT).encode())
    assert len({Exchange("openai_chat", "anthropic").request(form) for form in forms}) == 1
    answers = (ANSWER, json.dumps(ANSWER), json.dumps(ANSWER).encode())
    assert len({Exchange("anthropic", "openai_chat").response(form) for form in answers}) == 1
    assert Exchange("anthropic", "openai_chat").error(500, {}, "text").status == 500


def test_an_error_has_the_headers_of_its_dialect_within_it_only() -> None:
    headers = {"Anthropic-Ratelimit-Unified-Reset": "1763400000", "anthropic-organization-id": "org"}
    within, elsewhere = (
        Exchange(client, "anthropic").error(429, headers, "{}") for client in ("anthropic", "openai_chat")
    )
    assert within.headers["anthropic-ratelimit-unified-reset"] == "1763400000"
    assert within.headers["anthropic-organization-id"] == "org"
    assert not [name for name in elsewhere.headers if "ratelimit" in name or "organization" in name]


def test_a_stream_that_is_given_whole_is_one_chunk() -> None:
    stream = TEXT + STOP + DONE
    assert b"".join(translate_stream(stream, "openai_chat", "anthropic")) == b"".join(
        translate_stream([stream], "openai_chat", "anthropic")
    )


def test_a_dialect_is_found_by_either_spelling_and_an_unknown_one_is_named_with_the_known() -> None:
    assert Exchange("openai-chat", "openai_responses").client is DIALECTS["openai_chat"]
    with pytest.raises(UnknownDialectError, match=r"no dialect 'morse'; there are openai_chat, .*gemini"):
        Exchange("morse", "gemini")
    with pytest.raises(KeyError):
        translate_request(CHAT, "openai_chat", "morse")


def test_the_path_is_known_once_there_is_a_request() -> None:
    exchange = Exchange("openai_chat", "gemini", model="gemini-3-pro")
    with pytest.raises(ValueError, match="once there is a request"):
        _ = exchange.path
    exchange.request({**CHAT, "stream": True})
    assert exchange.path == "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"


def test_a_request_without_a_model_is_told() -> None:
    translated = translate_request({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, "gemini", "openai_chat")
    assert [line.where for line in translated.receipt.losses] == ["model"]


def test_only_the_model_changes_where_both_sides_speak_one_dialect() -> None:
    raw = b'{"model": "alias", "messages":[{"role":"user","content":"Hi"}], "x_new": [1.0, 2]}'
    exchange = Exchange("openai_chat", "openai_chat", model="real")
    assert exchange.request(raw) == raw.replace(b"alias", b"real")
    assert not exchange.receipt


OWN_REQUESTS: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "asked", "messages": [{"role": "user", "content": "Hi"}], "x_new": 1},
    "openai_responses": {"model": "asked", "input": "Hi", "x_new": 1},
    "anthropic": {"model": "asked", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "x_new": 1},
}


@pytest.mark.parametrize("said", [None, False, True])
@pytest.mark.parametrize("wanted", [None, False, True])
@pytest.mark.parametrize("dialect", OWN_REQUESTS)
def test_within_one_dialect_the_model_and_the_stream_are_overridden_in_the_body(
    dialect: str, wanted: bool | None, said: bool | None
) -> None:
    body = {**OWN_REQUESTS[dialect], **({} if said is None else {"stream": said})}
    translated = translate_request(body, dialect, dialect, model="given", stream=wanted)
    stream = bool(said) if wanted is None else wanted
    assert bool(translated.json().get("stream")) is stream
    assert translated.json() == {**body, "model": "given", **({"stream": stream} if bool(said) is not stream else {})}
    assert not translated.receipt


@pytest.mark.parametrize("dialect", OWN_REQUESTS)
def test_a_stream_is_overridden_also_where_the_request_is_written_anew(dialect: str) -> None:
    exchange = Exchange(dialect, dialect, verbatim=False)
    sent = json.loads(exchange.request({**OWN_REQUESTS[dialect], "stream": True}, model="given", stream=False))
    assert (sent["model"], sent.get("stream", False)) == ("given", False)


@pytest.mark.parametrize("dialect", OWN_REQUESTS)
def test_a_request_without_a_model_gets_the_given_one(dialect: str) -> None:
    body = {key: value for key, value in OWN_REQUESTS[dialect].items() if key != "model"}
    assert translate_request(body, dialect, dialect, model="given").json()["model"] == "given"


def test_within_gemini_the_model_and_the_stream_are_overridden_in_the_path() -> None:
    body = b'{"contents": [{"parts": [{"text": "Hi"}]}]}'
    exchange = Exchange("gemini", "gemini")
    assert exchange.request(body, model="gemini-3-pro", stream=True) == body
    assert exchange.path == "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"


REFUSALS: list[tuple[Any, int]] = [
    (DecodeError("$.messages", "wrong"), 400),
    (UpstreamDecodeError("$", "not JSON"), 502),
    (UpstreamError(ApiError(kind="rate_limit", message="slow", status=429)), 429),
]


@pytest.mark.parametrize(("error", "status"), REFUSALS)
@pytest.mark.parametrize("client", DIALECTS)
def test_every_error_of_an_exchange_has_the_clients_form_and_the_right_blame(
    client: str, error: Any, status: int
) -> None:
    exchange = Exchange(client, "openai_chat")
    refusal = exchange.refusal(error)
    # Gemini knows no 502: what it says of an upstream that cannot be had is 503.
    assert refusal.status == (503 if status == 502 and client == "gemini" else status)
    assert DIALECTS[client].decode_error(refusal.status, refusal.headers, refusal.body).message


def test_an_upstreams_garbage_is_the_upstreams_fault() -> None:
    with pytest.raises(UpstreamDecodeError):
        Exchange("anthropic", "openai_chat").response(b"<html>")


def test_strict_refuses_a_request_that_would_lose() -> None:
    exchange = Exchange("openai_chat", "anthropic", strict=True)
    with pytest.raises(LossError, match="seed") as refused:
        exchange.request({**CHAT, "seed": 7})
    assert exchange.refusal(refused.value).status == 400


def test_a_refusal_is_short_however_much_would_be_lost() -> None:
    receipt = Receipt()
    for number in range(50_000):
        receipt.loss(f"messages[{number}]", "name" * 1000, "has none")
    error = LossError(receipt)
    assert str(error).startswith("refused, because it would lose: messages[0]: name")
    assert str(error).endswith("; and 49980 more")
    assert len(str(error)) < 20_000
    assert error.receipt.loss_count == 50_000


def events(data: bytes) -> list[str]:
    return [line[7:].decode() for line in data.splitlines() if line.startswith(b"event: ")]


def test_strict_ends_a_stream_in_an_error_once_something_is_lost() -> None:
    lossy = CHUNK % b'{"index":1,"delta":{"content":"other"},"finish_reason":null}'
    translation = Exchange("anthropic", "openai_chat", strict=True).stream()
    written = translation.feed(TEXT + lossy + STOP + DONE) + translation.close()
    assert events(written)[-1] == "error"
    assert "message_stop" not in events(written)


def test_the_callers_time_stands_on_an_answer_whose_upstream_tells_none() -> None:
    answer = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "stop_reason": "end_turn"}
    exchange = Exchange("openai_chat", "anthropic", created=77)
    assert json.loads(exchange.response(answer))["created"] == 77
    start = {"type": "message_start", "message": {**answer, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    stream = exchange.stream().feed(b"event: message_start\ndata: " + json.dumps(start).encode() + b"\n\n")
    assert json.loads(stream.splitlines()[0][6:])["created"] == 77


@pytest.mark.parametrize("client", DIALECTS)
def test_a_whole_response_where_a_stream_was_asked_for_is_streamed(client: str) -> None:
    """Some servers ignore `stream: true`."""
    translation = Exchange(client, "openai_chat").stream()
    document = json.dumps(ANSWER).encode()
    written = b"".join(translation.feed(document[i : i + 7]) for i in range(0, len(document), 7)) + translation.close()
    assert "Hi" in text_of(client, "stream", written)
    assert translation.fault is None
    assert translation.ended


WARP_REASONS: dict[str, dict[str, str]] = {
    "warp": {
        "billing": '"quota_limit"',
        "authentication": '"invalid_api_key"',
        "permission": '"invalid_api_key"',
        "too_large": '"context_window_exceeded"',
        "rate_limit": '"llm_unavailable"',
        "overloaded": '"llm_unavailable"',
    }
}
"""Ends of a stream that have no place for words: the reason says it."""


@pytest.mark.parametrize("client", DIALECTS)
def test_an_error_document_where_a_stream_was_asked_for_is_told_with_its_own_words(client: str) -> None:
    translation = Exchange(client, "openai_chat").stream()
    written = translation.feed(b'{"error":{"message":"no quota","type":"insufficient_quota"}}') + translation.close()
    told = text_of(client, "stream", written)
    assert "no quota" in told or WARP_REASONS.get(client, {}).get("billing", "nothing") in told
    assert translation.fault is not None
    assert translation.fault.kind == "billing"


def test_forwarded_bytes_are_the_same_bytes_in_whole_frames() -> None:
    stream = TEXT + STOP + DONE
    translation = Exchange("openai_chat", "openai_chat").stream()
    pieces = [translation.feed(stream[i : i + 1]) for i in range(len(stream))] + [translation.close()]
    assert b"".join(pieces) == stream
    assert [piece for piece in pieces if piece] == [TEXT, STOP, DONE]


def test_a_forwarded_stream_that_is_cut_ends_in_an_error_and_not_in_half_a_frame() -> None:
    for cut in range(1, len(TEXT + STOP) - 2):
        translation = Exchange("openai_chat", "openai_chat").stream()
        written = translation.feed((TEXT + STOP)[:cut]) + translation.close()
        frames = [json.loads(frame[6:]) for frame in written.split(b"\n\n") if frame]
        assert "error" in frames[-1]


def test_a_last_frame_that_only_lacks_its_blank_line_is_whole() -> None:
    for tail in (b"", b"\n"):
        translation = Exchange("openai_chat", "openai_chat").stream()
        written = translation.feed(TEXT + STOP[:-2] + tail) + translation.close()
        assert written.startswith(TEXT + STOP[:-2])
        assert b"error" not in written


def test_a_failure_that_the_bytes_do_not_tell_ends_the_stream_in_the_clients_error() -> None:
    translation = Exchange("anthropic", "openai_chat").stream()
    written = translation.feed(TEXT) + translation.fail(ApiError(kind="timeout", message="too slow"))
    assert events(written)[-1] == "error"
    assert b"too slow" in written
    assert (
        translation.feed(STOP) == translation.close() == translation.fail(ApiError(kind="server", message="x")) == b""
    )


@pytest.mark.parametrize("pair", [(a, b) for a in JSON_NAMES for b in DIALECTS])
def test_a_document_that_is_nested_too_deeply_is_refused(pair: tuple[str, str]) -> None:
    bodies = {
        "openai_chat": b'{"model":"m","messages":[],"x":%b}',
        "openai_responses": b'{"model":"m","input":[],"x":%b}',
        "anthropic": b'{"model":"m","max_tokens":1,"messages":[],"x":%b}',
        "gemini": b'{"contents":[],"x":%b}',
        "ollama": b'{"model":"m","messages":[],"x":%b}',
    }
    for depth in (100, 500, 900, 5000):
        raw = bodies[pair[0]] % (b'{"a":' * depth + b"1" + b"}" * depth)
        try:
            Exchange(*pair).request(raw, model="m")
        except DecodeError as error:
            assert "deeply" in error.what


RULES: list[tuple[str, str, dict[str, Any], set[str], str]] = [
    ("openai_chat", "openai_chat", {"model": "gpt-4.1"}, {"reasoning_effort"}, "reasoning"),
    ("openai_responses", "openai_responses", {"model": "o3", "temperature": 0.3}, {"temperature"}, "temperature"),
    ("openai_chat", "mistral", {"model": "mistral-large"}, {"reasoning_effort"}, "reasoning"),
    ("anthropic", "claude-3-5", {"model": "claude-3-5-sonnet-20241022"}, {"thinking"}, "reasoning"),
]


@pytest.mark.parametrize(("upstream", "_name", "fields", "absent", "told"), RULES, ids=[rule[1] for rule in RULES])
def test_a_model_is_not_asked_for_what_it_refuses(
    upstream: str, _name: str, fields: dict[str, Any], absent: set[str], told: str
) -> None:
    client = "gemini"
    config = {"thinkingConfig": {"thinkingBudget": 2048}, "temperature": fields.get("temperature", 1.0)}
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": config}
    exchange = Exchange(client, upstream)
    sent = json.loads(exchange.request(body, model=fields["model"]))
    assert absent.isdisjoint(sent)
    assert told in {line.where for line in exchange.receipt}


def test_gemini_2_is_not_bound_to_a_format_beside_tools() -> None:
    """It answers "Function calling with a response mime type: 'application/json' is unsupported"."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    body = {**CHAT, "tools": [tool], "response_format": {"type": "json_object"}}
    for model, bound in (("gemini-2.5-flash", False), ("gemini-3-pro", True)):
        sent = json.loads(Exchange("openai_chat", "gemini", model=model).request(body))
        assert ("responseMimeType" in sent["generationConfig"]) is bound


def test_null_arguments_are_no_arguments() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "null"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {**ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    (block,) = json.loads(Exchange("anthropic", "openai_chat").response(answer))["content"]
    assert block["input"] == {}


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_page_that_is_no_json_becomes_the_message_of_an_error(client: str, upstream: str) -> None:
    refusal = Exchange(client, upstream).error(
        502, {}, "<html>Bad Gatewäy \udcff</html>".encode("utf-8", "surrogatepass")
    )
    assert refusal.status >= 500
    assert "Bad Gatew" in DIALECTS[client].decode_error(refusal.status, refusal.headers, refusal.body).message


def test_a_choice_means_the_same_in_every_dialect_that_has_one() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    for choice in ("auto", "none", "required", {"type": "function", "function": {"name": "f"}}):
        for upstream in JSON_NAMES:
            if "named" not in DIALECTS[upstream].can.tools.choices:
                continue
            exchange = Exchange("openai_chat", upstream)
            sent = DIALECTS[upstream].decode_request(exchange.request({**CHAT, "tools": tools, "tool_choice": choice}))
            assert sent.tool_choice is not None
            wanted = choice if isinstance(choice, str) else "required"
            assert (sent.tool_choice.mode, sent.tool_choice.names) == (
                wanted,
                () if isinstance(choice, str) else ("f",),
            )


def test_results_are_paired_with_calls_that_stand_in_neighbouring_messages() -> None:
    """A chat of Google's SDK keeps each chunk of an answer as a message of its own."""
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "g", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": name, "response": {"output": name}}} for name in "fg"],
        },
    ]
    sent = json.loads(Exchange("gemini", "openai_chat").request({"contents": contents}, model="m"))
    calls = [call for message in sent["messages"] for call in message.get("tool_calls", ())]
    results = {message["tool_call_id"]: message["content"] for message in sent["messages"] if message["role"] == "tool"}
    assert [results[call["id"]] for call in calls] == ["f", "g"]


def test_a_breakpoint_for_the_whole_request_leaves_the_blocks_behind_it_alone() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    content = [{"type": "text", "text": "look"}, image, image]
    body = {"model": "gpt-5.6", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
    sent = json.loads(
        Exchange("anthropic", "openai_chat").request({**body, "messages": [{"role": "user", "content": content}]})
    )
    parts = sent["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]
    assert "prompt_cache_breakpoint" in parts[0]


@pytest.mark.parametrize("kind", STATUS)
@pytest.mark.parametrize("client", DIALECTS)
def test_an_error_of_every_kind_has_a_form_before_and_inside_a_stream(client: str, kind: ErrorKind) -> None:
    exchange = Exchange(client, "openai_chat" if client != "openai_chat" else "anthropic")
    error = ApiError(kind=kind, message="so it is")
    assert b"so it is" in exchange.refusal(error).body
    told = text_of(client, "stream", exchange.stream().fail(error))
    assert "so it is" in told or WARP_REASONS.get(client, {}).get(kind, "nothing") in told


@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses"])
def test_a_client_that_wants_no_thinking_says_so_to_openai(upstream: str) -> None:
    body = {"model": "gpt-5.1", "max_tokens": 99, "thinking": {"type": "disabled"}}
    exchange = Exchange("anthropic", upstream)
    sent = json.loads(exchange.request({**body, "messages": [{"role": "user", "content": "Hi"}]}))
    assert (sent.get("reasoning_effort") or sent.get("reasoning", {}).get("effort")) == "none"


def test_an_unknown_member_of_a_custom_call_in_a_stream_is_told() -> None:
    call = b'{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"x","mood":"good"}}'
    exchange = Exchange("anthropic", "openai_chat")
    exchange.stream().feed(CHUNK % (b'{"index":0,"delta":{"tool_calls":[%b]},"finish_reason":null}' % call))
    assert [line.where for line in exchange.receipt.losses] == ["choices[0].delta.tool_calls[].custom.mood"]


def test_bytes_that_may_not_go_through_as_they_are_get_what_their_upstream_left_out() -> None:
    request = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": true}'
    bare = b'data: {"choices": [{"delta": {"content": "Hello"}}]}\n\n'
    bare += b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    forwarded, written = Exchange("openai_chat", "openai_chat"), Exchange("openai_chat", "openai_chat", verbatim=False)
    assert forwarded.request(request) == request
    assert json.loads(written.request(request)) == json.loads(request)
    through, anew = forwarded.stream(), written.stream()
    assert through.feed(bare) + through.close() == bare + DONE
    first = json.loads((anew.feed(bare) + anew.close()).split(b"\n\n")[0].removeprefix(b"data: "))
    assert (first["object"], first["choices"][0]["delta"]["role"]) == ("chat.completion.chunk", "assistant")
