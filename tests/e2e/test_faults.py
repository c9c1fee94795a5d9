"""An upstream that fails must look failed to the official SDKs: before the answer, and in the middle of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import translate_error, translate_stream

from .answers import Failure, Way
from .loopback import Loopback, Reply, pieces, stream
from .recordings import SOURCES, recording, truncations
from .ways import STREAMING, WAYS

STREAMS = [pytest.param(way, source, id=f"{source}-{way.name}") for source in SOURCES for way in STREAMING]

MIDSTREAM = {"openai_chat": "server", "openai_responses": "server", "anthropic": "overloaded", "gemini": "overloaded"}


def asked(loopback: Loopback, way: Way, reply: Reply) -> Any:
    with loopback.serving(reply) as exchange:
        return way.ask(exchange.base_url)


@pytest.mark.parametrize(("way", "source"), STREAMS)
def test_a_stream_that_is_cut_anywhere_fails(loopback: Loopback, way: Way, source: str) -> None:
    for cut in truncations(source):
        sent = b"".join(translate_stream(pieces(cut), source, way.dialect))
        answer = asked(loopback, way, stream(sent))
        assert isinstance(answer, Failure), f"after {cut[-80:]!r} came {answer}"


@pytest.mark.parametrize(("way", "source"), STREAMS)
def test_an_error_in_the_middle_of_a_stream_fails(loopback: Loopback, way: Way, source: str) -> None:
    recorded = recording(source, "failing", streams=True)
    failure = asked(loopback, way, stream(translate_stream(pieces(recorded), source, way.dialect)))
    assert isinstance(failure, Failure), failure
    if failure.name != "RuntimeError":  # which says only that the response was not completed
        message = "had an error" if MIDSTREAM[source] == "server" else "verloaded"
        assert message in failure.message


# ── errors before the stream ─────────────────────────────────────────────────────────────────────────────────────────


def openai_error(error_type: str, message: str, code: str | None) -> bytes:
    return json.dumps({"error": {"message": message, "type": error_type, "param": None, "code": code}}).encode()


def anthropic_error(error_type: str, message: str) -> bytes:
    error = {"type": "error", "error": {"type": error_type, "message": message}, "request_id": "req_011"}
    return json.dumps(error).encode()


def gemini_error(code: int, status: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "status": status}}).encode()


# kind -> the status and body in each vendor's words
KINDS: dict[str, dict[str, tuple[int, bytes]]] = {
    "bad_request": {
        "openai": (400, openai_error("invalid_request_error", "no such field", None)),
        "anthropic": (400, anthropic_error("invalid_request_error", "no such field")),
        "gemini": (400, gemini_error(400, "INVALID_ARGUMENT", "no such field")),
    },
    "authentication": {
        "openai": (401, openai_error("invalid_request_error", "no such key", "invalid_api_key")),
        "anthropic": (401, anthropic_error("authentication_error", "no such key")),
        "gemini": (401, gemini_error(401, "UNAUTHENTICATED", "no such key")),
    },
    "permission": {
        "openai": (403, openai_error("invalid_request_error", "not for you", None)),
        "anthropic": (403, anthropic_error("permission_error", "not for you")),
        "gemini": (403, gemini_error(403, "PERMISSION_DENIED", "not for you")),
    },
    "not_found": {
        "openai": (404, openai_error("invalid_request_error", "no such model", "model_not_found")),
        "anthropic": (404, anthropic_error("not_found_error", "no such model")),
        "gemini": (404, gemini_error(404, "NOT_FOUND", "no such model")),
    },
    "rate_limit": {
        "openai": (429, openai_error("tokens", "too fast", "rate_limit_exceeded")),
        "anthropic": (429, anthropic_error("rate_limit_error", "too fast")),
        "gemini": (429, gemini_error(429, "RESOURCE_EXHAUSTED", "too fast")),
    },
    "server": {
        "openai": (500, openai_error("server_error", "broken", None)),
        "anthropic": (500, anthropic_error("api_error", "broken")),
        "gemini": (500, gemini_error(500, "INTERNAL", "broken")),
    },
    "overloaded": {
        "openai": (503, openai_error("server_error", "too busy", None)),
        "anthropic": (529, anthropic_error("overloaded_error", "too busy")),
        "gemini": (503, gemini_error(503, "UNAVAILABLE", "too busy")),
    },
}
VENDORS = {"openai_chat": "openai", "openai_responses": "openai", "anthropic": "anthropic", "gemini": "gemini"}

CLASSES = {
    "bad_request": {"BadRequestError"},
    "authentication": {"AuthenticationError"},
    "permission": {"PermissionDeniedError"},
    "not_found": {"NotFoundError"},
    "rate_limit": {"RateLimitError"},
    "server": {"InternalServerError"},
    "overloaded": {"InternalServerError", "OverloadedError", "ServiceUnavailableError"},
}
"""The class that both OpenAI and Anthropic SDKs raise. Google's have two, for 4xx and 5xx, and tell the status."""

STATUSES = {"openai_chat": 503, "openai_responses": 503, "anthropic": 529, "gemini": 503}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in WAYS if not way.name.endswith("e_stream")])
def test_an_http_error_raises_the_class_of_its_kind(loopback: Loopback, way: Way, source: str, kind: str) -> None:
    status, body = KINDS[kind][VENDORS[source]]
    headers = {"content-type": "application/json", "retry-after": "7"}
    error = translate_error(status, headers, body, source, way.dialect)
    failure = asked(loopback, way, Reply(error.status, error.body, error.headers))
    assert isinstance(failure, Failure), failure
    assert failure.status == (STATUSES[way.dialect] if kind == "overloaded" else status)
    message = json.loads(body)["error"]["message"]
    assert message in failure.message
    if way.dialect != "gemini":
        assert failure.name in CLASSES[kind]
        assert failure.retry_after == "7"
    elif way.name.startswith("python"):
        assert failure.name == ("ClientError" if status < 500 else "ServerError")
    else:
        assert failure.name == "ApiError"
