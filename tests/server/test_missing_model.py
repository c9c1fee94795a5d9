"""A request that names no model is refused: no upstream was chosen to answer it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.client_errors import error_told
from tests.server.gateway import at, gateway, request
from tests.upstream.bad_server import BadServer

PARAMS: dict[str, Callable[[Any], tuple[str, str]]] = {
    "openai_chat": lambda body: (body["error"]["type"], body["error"]["param"]),
    "openai_responses": lambda body: (body["error"]["type"], body["error"]["param"]),
    "anthropic": lambda body: (body["error"]["type"], body["type"]),
    "ollama": lambda body: ("", "error"),
}
EXPECTED = {
    "openai_chat": ("invalid_request_error", "model"),
    "openai_responses": ("invalid_request_error", "model"),
    "anthropic": ("invalid_request_error", "error"),
    "ollama": ("", "error"),
}
UNNAMED: tuple[Any, ...] = (..., None, "", "  ")
"""A model that is absent, null, empty or blank."""


def unnamed(client: str, model: Any, *, stream: bool) -> tuple[str, bytes]:
    path, body = request(client, stream=stream)
    document = json.loads(body)
    document["model"] = model
    if model is ...:
        del document["model"]
    return path, json.dumps(document).encode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", UNNAMED)
@pytest.mark.parametrize("client", PARAMS)
def test_a_request_without_a_model_is_refused_and_the_field_is_named(client: str, model: Any, stream: bool) -> None:
    with gateway() as running:
        path, body = unnamed(client, model, stream=stream)
        answer = running.call("POST", path, body, {"content-type": "application/json"})
    assert answer.status == 400
    assert error_told(client, answer).message == "model: this string is required"
    assert PARAMS[client](answer.json()) == EXPECTED[client]


@pytest.mark.parametrize("client", PARAMS)
def test_the_only_upstream_is_not_asked_without_a_model_even_where_it_has_a_default(client: str) -> None:
    with BadServer([]) as upstream, gateway(at(client, upstream.url, default_model="d")) as running:
        path, body = unnamed(client, ..., stream=False)
        answer = running.call("POST", path, body, {"content-type": "application/json"})
        assert (answer.status, upstream.requests) == (400, [])


def test_a_blank_model_in_gemini_s_path_is_refused() -> None:
    with gateway() as running:
        _, body = request("gemini")
        path = "/v1beta/models/%20:generateContent"
        answer = running.call("POST", path, body, {"content-type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["message"] == "model: this string is required"


def test_messages_are_not_counted_without_a_model() -> None:
    with gateway() as running:
        path, body = unnamed("anthropic", ..., stream=False)
        answer = running.call("POST", f"{path}/count_tokens", body, {"content-type": "application/json"})
    assert (answer.status, answer.json()["error"]["message"]) == (400, "model: this string is required")


def test_a_response_is_counted_without_a_model_since_its_api_does_not_require_one() -> None:
    with gateway() as running:
        answer = running.call(
            "POST", "/v1/responses/input_tokens", b'{"input": "Hi"}', {"content-type": "application/json"}
        )
    assert (answer.status, answer.json()["object"]) == (200, "response.input_tokens")
