"""Errors of Messages, in replies and in streams, in its own shape and in those of imitators."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.anthropic.dialect import ANTHROPIC
from toolglot.dialects.anthropic.errors import read_error, write_error
from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT
from toolglot.errors import ApiError, ErrorKind, RateLimit, truncated

OWN: list[tuple[int, str, ErrorKind]] = [
    (400, "invalid_request_error", "bad_request"),
    (401, "authentication_error", "authentication"),
    (402, "billing_error", "billing"),
    (403, "permission_error", "permission"),
    (404, "not_found_error", "not_found"),
    (409, "conflict_error", "conflict"),
    (413, "request_too_large", "too_large"),
    (429, "rate_limit_error", "rate_limit"),
    (500, "api_error", "server"),
    (529, "overloaded_error", "overloaded"),
    (504, "timeout_error", "timeout"),
]


def decode(status: int, value: Any, **headers: str) -> ApiError:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return ANTHROPIC.decode_error(status, named, json.dumps(value).encode())


@pytest.mark.parametrize(("status", "word", "kind"), OWN)
def test_each_type_comes_back_as_it_was(status: int, word: str, kind: ErrorKind) -> None:
    body = {"type": "error", "error": {"type": word, "message": "m"}, "request_id": "req_1"}
    error = decode(status, body)
    assert (error.kind, error.message, error.status, error.request_id) == (kind, "m", status, "req_1")
    reply = ANTHROPIC.encode_error(error)
    assert reply.status == status
    assert json.loads(reply.body) == body
    assert reply.headers["request-id"] == "req_1"
    assert ANTHROPIC.encode_error(ApiError(kind=kind, message="m")).status == status


GENERIC: list[tuple[int, str, ErrorKind]] = [
    (400, "api_error", "bad_request"),
    (401, "api_error", "authentication"),
    (429, "api_error", "rate_limit"),
    (529, "api_error", "overloaded"),
    (413, "invalid_request_error", "too_large"),
    (429, "invalid_request_error", "rate_limit"),
    (500, "rate_limit_error", "rate_limit"),
]


@pytest.mark.parametrize(("status", "word", "kind"), GENERIC)
def test_the_status_decides_where_the_type_is_generic(status: int, word: str, kind: ErrorKind) -> None:
    body = {"type": "error", "error": {"type": word, "message": "m"}}
    error = decode(status, body)
    assert (error.kind, error.status) == (kind, status)
    reply = ANTHROPIC.encode_error(error)
    assert reply.status == status
    assert json.loads(reply.body) == body
    assert OPENAI_CHAT.encode_error(error).status == (503 if kind == "overloaded" else status)


def test_details_come_back_and_their_code_is_read() -> None:
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "m", "details": details}}
    error = decode(400, body)
    assert error.code == "thread_unsupported_request"
    assert json.loads(ANTHROPIC.encode_error(error).body) == body


def test_a_thread_is_refused_in_the_words_that_the_sdk_knows() -> None:
    asked = {"model": "m", "max_tokens": 1, "messages": [], "thread": {"type": "create"}}
    request = ANTHROPIC.decode_request(json.dumps(asked).encode())
    assert ANTHROPIC.request.refuse_elsewhere is not None
    error = ANTHROPIC.request.refuse_elsewhere(request)
    assert error is not None
    assert (error.kind, error.status, error.param) == ("bad_request", 400, "thread")
    reply = ANTHROPIC.encode_error(error)
    told = json.loads(reply.body)["error"]
    assert (reply.status, told["type"]) == (400, "invalid_request_error")
    assert told["message"] == "thread: this model's upstream keeps no threads; send the whole conversation"
    assert told["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    del asked["thread"]
    assert ANTHROPIC.request.refuse_elsewhere(ANTHROPIC.decode_request(json.dumps(asked).encode())) is None


def test_an_unknown_type_comes_back_and_its_status_tells_the_kind() -> None:
    body = {"type": "error", "error": {"type": "future_error", "message": "m"}}
    error = decode(429, body)
    assert error.kind == "rate_limit"
    assert json.loads(ANTHROPIC.encode_error(error).body) == body


def test_limits_and_waiting_times_come_back() -> None:
    headers = {
        "Retry-After": "12",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-15T00:00:00Z",
        "anthropic-ratelimit-input-tokens-limit": "1000",
        "request-id": "req_2",
    }
    error = ANTHROPIC.decode_error(429, headers, b'{"type":"error","error":{"type":"rate_limit_error","message":"m"}}')
    assert error.retry_after == 12
    assert error.limits == (
        RateLimit("input-tokens", "1000"),
        RateLimit("requests", "50", "0", "2026-11-15T00:00:00Z"),
    )
    written = dict(ANTHROPIC.encode_error(error).headers)
    assert written.pop("content-type") == "application/json"
    assert written == {name.lower(): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_waiting_times_are_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert ANTHROPIC.decode_error(429, headers, b"{}").retry_after == seconds


def test_another_apis_reset_is_left_out_because_it_is_a_duration() -> None:
    error = ApiError(kind="rate_limit", message="m", limits=(RateLimit("tokens", "9", "1", "6m0s"),))
    headers = ANTHROPIC.encode_error(error).headers
    assert headers["anthropic-ratelimit-tokens-limit"] == "9"
    assert "anthropic-ratelimit-tokens-reset" not in headers


def test_a_code_and_a_parameter_of_another_api_stand_in_the_details() -> None:
    error = ApiError(kind="bad_request", message="m", status=422, code="bad_schema", param="tools[0]")
    reply = ANTHROPIC.encode_error(error)
    assert reply.status == 400
    assert json.loads(reply.body)["error"] == {
        "type": "invalid_request_error",
        "message": "m",
        "details": {"error_code": "bad_schema", "param": "tools[0]"},
    }
    again = ANTHROPIC.decode_error(reply.status, reply.headers, reply.body)
    assert (again.kind, again.code, again.param) == ("bad_request", "bad_schema", "tools[0]")


def test_overload_has_this_apis_own_status_and_a_bad_gateway_keeps_its_own() -> None:
    assert ANTHROPIC.encode_error(ApiError(kind="overloaded", message="m", status=503)).status == 529
    assert ANTHROPIC.encode_error(truncated()).status == 502


FOREIGN: list[tuple[Any, ErrorKind, str]] = [
    ("it broke", "server", "it broke"),
    ({"error": "it broke"}, "server", "it broke"),
    ({"error": {"message": "it broke", "type": "server_error"}}, "server", "it broke"),
    ({"error": {"message": "slow down", "code": 429}}, "rate_limit", "slow down"),
    ({"error": {"message": "pay", "code": "insufficient_quota"}}, "billing", "pay"),
    ({"type": "error", "message": "flat"}, "server", "flat"),
    ({"object": "error", "message": "vLLM", "code": 400}, "bad_request", "vLLM"),
    ({"detail": "not here"}, "server", "not here"),
    ({"detail": [{"loc": ["body"]}]}, "server", '[{"loc":["body"]}]'),
    ({}, "server", "{}"),
    (None, "server", "null"),
]


@pytest.mark.parametrize(("value", "kind", "message"), FOREIGN, ids=lambda value: str(value)[:40])
def test_other_shapes_are_understood(value: Any, kind: ErrorKind, message: str) -> None:
    error = read_error(value)
    assert (error.kind, error.message) == (kind, message)


def test_a_page_of_a_proxy_becomes_the_message() -> None:
    error = ANTHROPIC.decode_error(502, {}, b"Bad gateway")
    assert (error.kind, error.status, error.message) == ("server", 502, "Bad gateway")
    assert ANTHROPIC.decode_error(503, {}, b"").message == "HTTP status 503"


@given(st.integers(0, 600), st.binary(max_size=60))
def test_any_reply_can_be_read_and_written(status: int, body: bytes) -> None:
    error = ANTHROPIC.decode_error(status, {}, body)
    assert json.loads(ANTHROPIC.encode_error(error).body)["type"] == "error"
    assert read_error(write_error(error)).message == error.message


def test_headers_hold_nothing_that_could_break_out_of_them() -> None:
    bad = "req\r\nset-cookie: a=b"
    body = {"type": "error", "error": {"type": "api_error", "message": "m"}, "request_id": bad}
    error = decode(500, body, **{"anthropic_ratelimit_a\r\nb_limit": "1", "anthropic_ratelimit_tokens_limit": "1\n2"})
    reply = ANTHROPIC.encode_error(error)
    assert dict(reply.headers) == {"content-type": "application/json"}
    assert json.loads(reply.body)["request_id"] == bad
    forged = ApiError(kind="server", message="m", limits=(RateLimit("x: y", "1"), RateLimit("tokens", "5")))
    assert dict(ANTHROPIC.encode_error(forged).headers) == {
        "content-type": "application/json",
        "anthropic-ratelimit-tokens-limit": "5",
    }


@pytest.mark.parametrize("status", [-1, 0, 7, 200, 302, 399, 600, 999])
def test_a_status_that_is_no_errors_becomes_that_of_the_kind(status: int) -> None:
    assert ANTHROPIC.encode_error(decode(status, {"error": {"type": "rate_limit_error"}})).status == 429
    assert ANTHROPIC.encode_error(ANTHROPIC.decode_error(status, {}, b"oops")).status == 500
    assert ANTHROPIC.encode_error(ApiError(kind="server", message="m", status=status)).status == 500


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "The conversation is too long for the model",
            "prompt is too long: The conversation is too long for the model",
        ),
        ("Prompt is too long: 9 > 8", "Prompt is too long: 9 > 8"),
    ],
)
def test_a_full_context_window_is_told_in_the_words_that_clients_look_for(message: str, told: str) -> None:
    error = ApiError(kind="bad_request", status=400, code="context_length_exceeded", message=message)
    assert write_error(error)["error"]["message"] == told
    other = ApiError(kind="bad_request", status=400, code="other", message=message)
    assert write_error(other)["error"]["message"] == message
