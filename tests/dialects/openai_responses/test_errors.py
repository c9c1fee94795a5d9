"""Errors of the Responses API: the HTTP envelope, failed responses, and events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT
from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES
from toolglot.dialects.openai_responses.errors import decode_failure, encode_failure
from toolglot.errors import STATUS, ApiError, ErrorKind, RateLimit
from toolglot.events import Fault, Start
from toolglot.receipt import Receipt


def envelope(**fields: Any) -> bytes:
    return json.dumps({"error": {"message": "no", "type": None, "param": None, "code": None, **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "fields", "kind"),
    [
        (400, {"type": "invalid_request_error", "param": "input"}, "bad_request"),
        (401, {"type": "invalid_request_error", "code": "invalid_api_key"}, "authentication"),
        (429, {"type": "insufficient_quota", "code": "insufficient_quota"}, "billing"),
        (404, {"type": "invalid_request_error", "code": "model_not_found"}, "not_found"),
        (429, {"type": "tokens", "code": "rate_limit_exceeded"}, "rate_limit"),
        (500, {"type": "server_error"}, "server"),
        (503, {"type": "server_error"}, "overloaded"),
    ],
)
def test_the_envelope_is_read(status: int, fields: dict[str, Any], kind: ErrorKind) -> None:
    error = OPENAI_RESPONSES.decode_error(status, {}, envelope(**fields))
    assert (error.kind, error.message, error.status) == (kind, "no", status)
    assert error.param == fields.get("param")


@pytest.mark.parametrize("kind", list(STATUS))
def test_every_kind_survives_the_way_there_and_back(kind: ErrorKind) -> None:
    written = OPENAI_RESPONSES.encode_error(ApiError(kind=kind, message="no"))
    assert set(json.loads(written.body)["error"]) == {"message", "type", "param", "code"}
    assert OPENAI_RESPONSES.decode_error(written.status, written.headers, written.body).kind == kind


def test_headers_are_read_and_written() -> None:
    headers = {
        "Retry-After-Ms": "1500",
        "X-RateLimit-Limit-Requests": "60",
        "X-RateLimit-Remaining-Requests": "0",
        "X-RateLimit-Reset-Requests": "6m0s",
        "X-Request-Id": "req_1",
    }
    error = OPENAI_RESPONSES.decode_error(429, headers, envelope(code="rate_limit_exceeded"))
    assert (error.retry_after, error.request_id) == (1.5, "req_1")
    assert error.limits == (RateLimit("requests", "60", "0", "6m0s"),)
    written = OPENAI_RESPONSES.encode_error(error).headers
    assert (written["retry-after"], written["retry-after-ms"]) == ("2", "1500")
    assert written["x-ratelimit-reset-requests"] == "6m0s"
    assert written["x-request-id"] == "req_1"


@pytest.mark.parametrize(
    ("foreign", "status", "code"),
    [
        (ApiError(kind="authentication", status=400, code="API_KEY_INVALID", message="no"), 401, "invalid_api_key"),
        (ApiError(kind="billing", status=402, code="billing_error", message="no"), 429, "insufficient_quota"),
        (ApiError(kind="bad_request", status=499, message="no"), 400, None),
        (ApiError(kind="overloaded", status=529, code="overloaded_error", message="no"), 503, "overloaded"),
        (ApiError(kind="server", status=502, code="upstream_truncated", message="no"), 502, "upstream_truncated"),
        (ApiError(kind="bad_request", code="would_lose", message="no"), 400, "would_lose"),
        (ApiError(kind="server", status=200, message="no"), 500, None),
        (ApiError(kind="bad_request", code="context_length_exceeded", message="no"), 400, "context_length_exceeded"),
    ],
)
def test_errors_of_other_vendors_use_openais_types_and_codes(foreign: ApiError, status: int, code: str | None) -> None:
    written = OPENAI_RESPONSES.encode_error(foreign)
    assert (written.status, json.loads(written.body)["error"]["code"]) == (status, code)


def test_an_imitator_keeps_its_own_status_and_words() -> None:
    error = OPENAI_RESPONSES.decode_error(418, {}, envelope(code="teapot", type="pot"))
    for dialect in (OPENAI_RESPONSES, OPENAI_CHAT):
        written = dialect.encode_error(error)
        assert (written.status, json.loads(written.body)) == (418, json.loads(envelope(code="teapot", type="pot")))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "3"}, {"retry-after": "3"}),
        ({"retry-after": "1e300"}, {"retry-after": "86400"}),
        ({"retry-after": "0.2"}, {"retry-after": "1", "retry-after-ms": "200"}),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        ({"retry-after": "soon"}, {}),
        ({"retry-after": "nan"}, {}),
        ({"x-request-id": "a\r\nset-cookie: b=c"}, {}),
        ({"x-ratelimit-limit-tokens": "1\n2"}, {}),
    ],
)
def test_only_valid_header_values_are_written(headers: dict[str, str], expected: dict[str, str]) -> None:
    written = OPENAI_RESPONSES.encode_error(OPENAI_RESPONSES.decode_error(429, headers, envelope()))
    assert written.headers == {"content-type": "application/json", **expected}


def test_a_page_of_a_proxy_is_the_message() -> None:
    error = OPENAI_RESPONSES.decode_error(502, {}, b"Bad Gateway")
    assert (error.kind, error.message) == ("server", "Bad Gateway")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({"type": "error", "code": "server_error", "message": "boom", "param": None}, "server", "boom"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}, "bad_request", "bad"),
        ({"type": "error", "status": 429, "error": {"message": "slow"}}, "rate_limit", "slow"),
        ({"object": "response", "error": {"code": "server_is_overloaded", "message": "busy"}}, "overloaded", "busy"),
        ({"object": "response", "error": {"code": "invalid_image", "message": "what?"}}, "bad_request", "what?"),
        ({"object": "response", "error": None, "status": "failed"}, "server", "The response is failed"),
        ({"object": "error", "message": "from vLLM", "code": 400}, "bad_request", "from vLLM"),
        ({"detail": "from FastAPI"}, "server", "from FastAPI"),
        ({"error": "from Ollama"}, "server", "from Ollama"),
    ],
)
def test_failures_of_every_shape_are_read(value: dict[str, Any], kind: ErrorKind, message: str) -> None:
    error = decode_failure(value)
    assert (error.kind, error.message) == (kind, message)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(kind="rate_limit", message="slow"), "rate_limit_exceeded"),
        (ApiError(kind="overloaded", message="busy", code="overloaded_error"), "server_error"),
        (ApiError(kind="overloaded", message="own", code="server_is_overloaded"), "server_is_overloaded"),
        (ApiError(kind="bad_request", message="bad", code="context_length_exceeded"), "context_length_exceeded"),
        (ApiError(kind="server", message="cut", code="upstream_truncated"), "server_error"),
        (ApiError(kind="server", message="own", code="novel", native={"openai_responses": {"type": "x"}}), "novel"),
    ],
)
def test_a_failed_response_has_a_code_that_its_clients_know(error: ApiError, code: str) -> None:
    assert encode_failure(error) == {"code": code, "message": error.message}


FAILED_AS: dict[ErrorKind, str] = {
    "bad_request": "invalid_prompt",
    "billing": "insufficient_quota",
    "rate_limit": "rate_limit_exceeded",
    "server": "server_error",
}


@pytest.mark.parametrize(("kind", "code"), FAILED_AS.items())
def test_the_code_of_a_failed_response_decodes_to_the_same_kind(kind: ErrorKind, code: str) -> None:
    encoder = OPENAI_RESPONSES.stream_encoder(None, Receipt())
    written = encoder.feed(Start(id="r", model="m")) + encoder.feed(Fault(ApiError(kind=kind, message="m")))
    assert f'"code":"{code}"'.encode() in written
    decoder = OPENAI_RESPONSES.stream_decoder(Receipt())
    last = (decoder.feed(written) + decoder.close())[-1]
    assert isinstance(last, Fault)
    assert last.error.kind == kind
