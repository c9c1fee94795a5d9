"""Google's error documents, read and written."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.gemini.dialect import GEMINI
from toolglot.errors import ApiError, DecodeError, ErrorKind, UpstreamError

RPC = "type.googleapis.com/google.rpc."


def decode(status: int, body: Any, headers: dict[str, str] | None = None) -> ApiError:
    return GEMINI.decode_error(status, headers or {}, json.dumps(body).encode())


def document(code: int, name: str, *details: Any) -> dict[str, Any]:
    extra = {"details": list(details)} if details else {}
    return {"error": {"code": code, "message": "m", "status": name, **extra}}


@pytest.mark.parametrize(
    ("code", "name", "kind"),
    [
        (400, "INVALID_ARGUMENT", "bad_request"),
        (400, "FAILED_PRECONDITION", "bad_request"),
        (401, "UNAUTHENTICATED", "authentication"),
        (403, "PERMISSION_DENIED", "permission"),
        (404, "NOT_FOUND", "not_found"),
        (409, "ABORTED", "conflict"),
        (413, "INVALID_ARGUMENT", "too_large"),
        (429, "RESOURCE_EXHAUSTED", "rate_limit"),
        (500, "INTERNAL", "server"),
        (503, "UNAVAILABLE", "overloaded"),
        (504, "DEADLINE_EXCEEDED", "timeout"),
        (418, "NOVEL", "bad_request"),
    ],
)
def test_an_error_comes_back_as_it_was(code: int, name: str, kind: ErrorKind) -> None:
    body = document(code, name, {"@type": "novel", "x": 1})
    error = decode(code, body)
    assert (error.kind, error.status, error.message) == (kind, code, "m")
    written = GEMINI.encode_error(error)
    assert written.status == code
    assert json.loads(written.body) == body


@pytest.mark.parametrize(
    ("kind", "code", "name"),
    [
        ("bad_request", 400, "INVALID_ARGUMENT"),
        ("authentication", 401, "UNAUTHENTICATED"),
        ("billing", 429, "RESOURCE_EXHAUSTED"),
        ("permission", 403, "PERMISSION_DENIED"),
        ("not_found", 404, "NOT_FOUND"),
        ("conflict", 409, "ABORTED"),
        ("too_large", 413, "INVALID_ARGUMENT"),
        ("rate_limit", 429, "RESOURCE_EXHAUSTED"),
        ("server", 500, "INTERNAL"),
        ("overloaded", 503, "UNAVAILABLE"),
        ("timeout", 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_an_error_from_elsewhere_gets_googles_code_and_comes_back(kind: ErrorKind, code: int, name: str) -> None:
    written = GEMINI.encode_error(ApiError(kind=kind, status=529, message="m"))
    error = json.loads(written.body)["error"]
    assert (written.status, error["code"], error["status"]) == (code, code, name)
    assert written.headers["content-type"].startswith("application/json")
    assert GEMINI.decode_error(code, {}, written.body).kind == kind


def test_a_bad_key_is_told_by_its_detail() -> None:
    reason = {"@type": RPC + "ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
    error = decode(400, document(400, "INVALID_ARGUMENT", reason))
    assert (error.kind, error.code) == ("authentication", "API_KEY_INVALID")
    assert GEMINI.encode_error(error).status == 400


def test_the_time_to_retry_is_in_the_details_or_the_header() -> None:
    delay = {"@type": RPC + "RetryInfo", "retryDelay": "13.5s"}
    body = document(429, "RESOURCE_EXHAUSTED", delay)
    error = decode(429, body)
    assert error.retry_after == 13.5
    assert GEMINI.encode_error(error).headers["retry-after"] == "14"
    assert decode(429, body, {"Retry-After": "3"}).retry_after == 3
    assert decode(429, document(429, "RESOURCE_EXHAUSTED", {**delay, "retryDelay": "soon"})).retry_after is None
    assert decode(429, {"error": {}}, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}).retry_after is None


def test_details_from_elsewhere_are_written_in_googles_form() -> None:
    error = ApiError(kind="rate_limit", message="m", code="slow_down", param="contents", retry_after=2)
    written = GEMINI.encode_error(error)
    assert json.loads(written.body)["error"]["details"] == [
        {"@type": RPC + "ErrorInfo", "reason": "slow_down"},
        {"@type": RPC + "BadRequest", "fieldViolations": [{"field": "contents", "description": "m"}]},
        {"@type": RPC + "RetryInfo", "retryDelay": "2s"},
    ]
    again = GEMINI.decode_error(429, {}, written.body)
    assert (again.code, again.param, again.retry_after) == ("slow_down", "contents", 2)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (502, b"Bad gateway", "server", "Bad gateway"),
        (503, b"", "overloaded", "HTTP status 503"),
        (429, b'{"error":"too many"}', "rate_limit", "too many"),
        (400, b'[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]', "bad_request", "m"),
        (500, b'{"error":{"code":13}}', "server", '{"code":13}'),
        (404, b'{"message":"gone"}', "not_found", "gone"),
        (400, b'{"detail":"x"}', "bad_request", "x"),
        (500, b"[]", "server", "[]"),
    ],
)
def test_any_body_becomes_an_error(status: int, body: bytes, kind: ErrorKind, message: str) -> None:
    error = GEMINI.decode_error(status, {}, body)
    assert (error.kind, error.status, error.message) == (kind, status, message)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "code", "message", "status", "details", "@type", "reason", "fieldViolations"]),
            inner,
        )
    ),
)


@given(st.integers(100, 599), JSON)
def test_no_document_makes_reading_or_writing_fail(status: int, value: Any) -> None:
    error = GEMINI.decode_error(status, {}, json.dumps(value).encode())
    written = GEMINI.encode_error(error)
    assert 400 <= written.status < 600
    assert next(iter(json.loads(written.body))) == "error"


@pytest.mark.parametrize("code", [200, 0, -1, 99999, 13, 302])
def test_a_code_that_is_no_status_of_an_error_is_not_taken_for_one(code: int) -> None:
    body = {"error": {"code": code, "message": "m", "status": "NOVEL"}}
    with pytest.raises(UpstreamError) as raised:
        GEMINI.decode_response(json.dumps(body).encode())
    error = raised.value.error
    assert (error.kind, error.status) == ("server", 0)
    assert GEMINI.encode_error(error).status == 500


def test_a_huge_code_is_refused_or_ignored() -> None:
    with pytest.raises((DecodeError, UpstreamError)):
        GEMINI.decode_response(b'{"error":{"code":1%b,"message":"m"}}' % (b"0" * 30))


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [(0.2, "1"), (13.5, "14"), (2, "2"), (1e12, "86400"), (math.inf, "86400"), (math.nan, None), (-1, None)],
)
def test_a_wait_is_told_in_whole_seconds_of_at_most_a_day(wait: float, seconds: str | None) -> None:
    written = GEMINI.encode_error(ApiError(kind="rate_limit", message="m", retry_after=wait))
    assert written.headers.get("retry-after") == seconds
    details = json.loads(written.body)["error"].get("details")
    assert details == (seconds and [{"@type": RPC + "RetryInfo", "retryDelay": f"{seconds}s"}])


def test_a_date_to_wait_for_goes_through_and_nothing_else_does() -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    error = decode(429, {"error": {}}, {"Retry-After": date})
    assert error.retry_after_date == date
    assert GEMINI.encode_error(error).headers["retry-after"] == date
    assert decode(429, {"error": {}}, {"Retry-After": "soon\r\nx: y"}).retry_after_date is None
    unsafe = ApiError(kind="rate_limit", message="m", retry_after_date="soon\r\nx: y")
    assert "retry-after" not in GEMINI.encode_error(unsafe).headers


def test_deep_lists_around_an_error_are_no_error() -> None:
    body = b"[" * 900 + b"]" * 900
    assert GEMINI.decode_error(500, {}, body).kind == "server"
