"""Error documents of many vendors: with an error status, with status 200, and as frames of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.exchanges import JSON_NAMES
from tests.pitfalls.wires import chat, data_frame

from toolglot.api import translate_error, translate_response, translate_stream
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamError
from toolglot.wire.error_documents import find_error

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}
EXHAUSTED = {"code": 429, "message": "Quota is used up.", "status": "RESOURCE_EXHAUSTED", "details": [RETRY]}
PYDANTIC = [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]
FAULT = {"faultstring": "Quota violation", "detail": {"errorcode": "policies.ratelimit.QuotaViolation"}}

DOCUMENTS: list[tuple[Any, str, int]] = [
    ({"status_code": 429, "message": "Slow down"}, "Slow down", 429),
    ({"statusCode": 429, "message": "Slow down"}, "Slow down", 429),
    ({"code": "429", "message": "Slow down"}, "Slow down", 429),
    ({"message": "It broke"}, "It broke", 500),
    ({"message": "It broke", "type": "BadGatewayError", "code": 502}, "It broke", 502),
    ({"fault": FAULT}, "Quota violation", 500),
    ({"object": "error", "message": "Too long", "code": 400}, "Too long", 400),
    ({"type": "error", "message": "It broke"}, "It broke", 500),
    ({"detail": "Not today"}, "Not today", 500),
    ({"detail": PYDANTIC}, '[{"type":"missing","loc":["body","model"],"msg":"Field required"}]', 500),
    ({"error": "It broke"}, "It broke", 500),
    ({"status": 404, "error": "Not Found", "message": "No such model"}, "No such model", 404),
    ({"type": "about:blank", "status": 403, "title": "Forbidden", "detail": "Not you"}, "Not you", 403),
    ({"status": 503, "title": "Unavailable", "detail": "Come again"}, "Come again", 503),
    ({"errors": [{"code": 500, "message": "It broke"}], "success": False}, "It broke", 500),
    ([{"error": EXHAUSTED}], "Quota is used up.", 429),
    ({"code": 500, "msg": "404 NOT_FOUND", "success": False}, "404 NOT_FOUND", 500),
    ({"code": 401, "msg": "Not you"}, "Not you", 401),
]


@pytest.mark.parametrize("upstream", JSON_NAMES)
@pytest.mark.parametrize(("document", "message", "status"), DOCUMENTS)
def test_a_whole_error_document_with_status_200_is_an_error(
    document: Any, message: str, status: int, upstream: str
) -> None:
    for client in JSON_NAMES:
        with pytest.raises(UpstreamError) as raised:
            translate_response(json.dumps(document), upstream, client)
        assert raised.value.error.message == message
        if upstream == "openai_chat":
            assert raised.value.error.status == status


@pytest.mark.parametrize("upstream", JSON_NAMES)
@pytest.mark.parametrize(("document", "message", "status"), DOCUMENTS)
def test_an_error_document_in_a_stream_ends_it_with_that_error(
    document: Any, message: str, status: int, upstream: str
) -> None:
    words = json.dumps(message)[1:-1]
    for client in JSON_NAMES:
        frame = data_frame(document)
        if DIALECTS[upstream].stream.framing.is_bare:
            frame = frame.removeprefix(b"data: ")
        stream = translate_stream(frame, upstream, client)
        written = b"".join(stream).decode()
        assert words in written
        assert client != "openai_chat" or written.startswith('data: {"error":{"message":')
        assert client != "ollama" or json.loads(written)["error"].startswith(message)
        assert client != "anthropic" or 'event: error\ndata: {"type":"error","error":{' in written
        assert not stream.receipt.losses


@pytest.mark.parametrize(("document", "message", "status"), DOCUMENTS)
def test_an_error_document_in_the_place_of_a_stream_is_that_error(document: Any, message: str, status: int) -> None:
    words = json.dumps(message)[1:-1]
    for client in JSON_NAMES:
        written = b"".join(translate_stream(json.dumps(document), "openai_chat", client)).decode()
        assert words in written
        assert "unreadable" not in written
        assert "before the response was complete" not in written


@pytest.mark.parametrize("client", JSON_NAMES)
@pytest.mark.parametrize("body", ['{"code":1305,"info":"It broke"}', "It broke"])
def test_an_event_named_error_is_an_error_in_any_form(client: str, body: str) -> None:
    begun = chat({"content": "Hi"}, finish=None, done=False)
    stream = translate_stream(begun + f"event: error\ndata: {body}\n\n".encode(), "openai_chat", client)
    written = b"".join(stream).decode()
    assert "It broke" in written
    assert "unreadable" not in written
    assert client != "openai_chat" or '\n\ndata: {"error":{"message":' in written


@pytest.mark.parametrize("upstream", JSON_NAMES)
def test_an_error_with_an_error_status_is_read_in_any_form(upstream: str) -> None:
    for document, message, _ in DOCUMENTS:
        for client in JSON_NAMES:
            error = translate_error(429, {}, json.dumps(document), upstream, client)
            assert error.status == 429
            told = json.loads(error.body)["error"]  # Ollama's own is the message alone
            assert message in json.dumps(told["message"] if isinstance(told, dict) else told).replace('\\"', '"')


@pytest.mark.parametrize("client", JSON_NAMES)
@pytest.mark.parametrize("upstream", JSON_NAMES)
def test_a_wait_in_the_details_or_the_words_becomes_retry_after(upstream: str, client: str) -> None:
    words = {"error": {"message": "Rate limit reached. Please try again in 1.898s.", "code": "rate_limit_exceeded"}}
    assert translate_error(429, {}, json.dumps(words), upstream, client).headers["retry-after"] == "2"
    for document in ({"error": EXHAUSTED}, [{"error": EXHAUSTED}]):
        assert translate_error(429, {}, json.dumps(document), upstream, client).headers["retry-after"] == "3"
    told = translate_error(429, {"Retry-After": "9"}, json.dumps(words), upstream, client)
    assert told.headers["retry-after"] == "9"
    refused = {"error": {"message": "Please try again in 5s with another model", "code": "bad"}}
    assert "retry-after" not in translate_error(400, {}, json.dumps(refused), upstream, client).headers


@pytest.mark.parametrize(
    "value",
    [
        {"id": "1", "choices": [], "message": "x"},
        {"object": "chat.completion.chunk", "message": "x"},
        {"type": "response.something.new", "message": "x"},
        {"type": "response.something.new", "detail": "x"},
        {"type": "response.warning", "code": "slow", "message": "x"},
        {"type": "notice", "detail": "x"},
        {"status": 200, "detail": "x"},
        {"message": {"role": "assistant", "content": "x"}},
        {"status": 200, "message": "queued"},
        {"code": 200, "msg": "ok"},
        {"code": "0", "msg": "ok"},
        {"msg": "x"},
        {"candidates": [], "detail": "x"},
        {"detail": None},
        {"error": None, "id": "1"},
        [[{"error": "x"}]],
        [],
        "error",
        None,
    ],
)
def test_what_only_resembles_an_error_is_none(value: Any) -> None:
    assert find_error(value) is None


# OpenRouter's error inside a choice


PROVIDER = {"code": 502, "message": "Provider returned error", "metadata": {"raw": "the model crashed"}}


@pytest.mark.parametrize("client", JSON_NAMES)
def test_an_error_inside_a_choice_keeps_its_status_and_words(client: str) -> None:
    choice = {"index": 0, "finish_reason": "error", "error": PROVIDER}
    whole = {"id": "gen-1", "object": "chat.completion", "created": 1, "model": "m"}
    whole |= {"choices": [{**choice, "message": {"role": "assistant", "content": "Hel"}}]}
    with pytest.raises(UpstreamError) as raised:
        translate_response(json.dumps(whole), "openai_chat", client)
    assert (raised.value.error.status, raised.value.error.message) == (
        502,
        "Provider returned error: the model crashed",
    )
    chunk = {**whole, "object": "chat.completion.chunk", "choices": [{**choice, "delta": {"content": "lo"}}]}
    data = chat({"content": "Hel"}, finish=None, done=False) + data_frame(chunk) + b"data: [DONE]\n\n"
    stream = translate_stream(data, "openai_chat", client)
    written = b"".join(stream).decode()
    assert "Provider returned error: the model crashed" in written
    assert client != "openai_chat" or '\n\ndata: {"error":{"message":"Provider' in written
    assert not stream.receipt.losses
