"""The models as clients ask for them, and how many tokens a request has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.server.gateway import Running, at, gateway
from tests.server.stage import DIALECTS, Stage, Turn, model_of, stage
from tests.upstream.bad_server import BadServer, close, expect, reply
from toolglot.config.schema import ModelConfig
from toolglot.routing import Router

NOWHERE = "http://127.0.0.1:9"
MODELS = {
    "fast": ModelConfig(upstream="local", model="qwen3:4b", context_window=32_768, max_output_tokens=4_096),
    "seeing": ModelConfig(upstream="local", model="llava", quirks={"media_in_user": frozenset({"image"})}),
    "secret": ModelConfig(upstream="local", hidden=True),
    "claude-*": ModelConfig(upstream="local", model="qwen3:4b"),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    upstreams = {"local": at("openai_chat", NOWHERE, models=("qwen3:4b",)), "other": at("anthropic", NOWHERE)}
    with gateway(upstreams, models=MODELS) as running:
        yield running


AS_OPENAI: list[tuple[str, dict[str, str]]] = [("/v1/models", {}), ("/models", {}), ("/openai/v1/models", {})]
AS_ANTHROPIC = [
    ("/v1/models", {"anthropic-version": "2023-06-01"}),
    ("/v1/models?limit=1000", {"anthropic-version": "2026-10-21"}),
    ("/anthropic/v1/models", {}),
]
AS_GEMINI = [
    ("/v1beta/models", {}),
    ("/v1/models", {"x-goog-api-key": "k"}),
    ("/v1/models", {"x-goog-api-client": "google-genai-sdk/3.1.0"}),
    ("/gemini/v1beta/models", {}),
]
NAMES = ["fast", "seeing", "qwen3:4b", "demo"]


@pytest.mark.parametrize(("path", "headers"), AS_OPENAI)
def test_the_models_as_openais_clients_want_them(running: Running, path: str, headers: Mapping[str, str]) -> None:
    listed = running.call("GET", path, headers=headers).json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == NAMES
    fast = listed["data"][0]
    assert (fast["object"], fast["owned_by"], fast["context_length"]) == ("model", "local", 32_768)
    assert isinstance(fast["created"], int)
    assert listed["data"][1]["architecture"] == {"input_modalities": ["text", "image"]}


@pytest.mark.parametrize(("path", "headers"), AS_ANTHROPIC)
def test_the_models_as_anthropics_clients_want_them(running: Running, path: str, headers: Mapping[str, str]) -> None:
    listed = running.call("GET", path, headers=headers).json()
    assert [model["id"] for model in listed["data"]] == NAMES
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "fast", "demo")
    fast = listed["data"][0]
    assert (fast["type"], fast["display_name"]) == ("model", "fast")
    assert (fast["max_input_tokens"], fast["max_tokens"]) == (32_768, 4_096)
    assert fast["created_at"].endswith("Z")


@pytest.mark.parametrize(("path", "headers"), AS_GEMINI)
def test_the_models_as_googles_clients_want_them(running: Running, path: str, headers: Mapping[str, str]) -> None:
    listed = running.call("GET", path, headers=headers).json()
    assert [model["name"] for model in listed["models"]] == [f"models/{name}" for name in NAMES]
    fast = listed["models"][0]
    assert (fast["inputTokenLimit"], fast["outputTokenLimit"]) == (32_768, 4_096)
    assert "generateContent" in fast["supportedGenerationMethods"]


def test_lists_are_paged_as_the_asker_pages(running: Running) -> None:
    answer = running.call("GET", "/anthropic/v1/models?limit=1&after_id=fast")
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    page = answer.json()
    assert ([model["id"] for model in page["data"]], page["has_more"]) == (["seeing"], True)
    page = running.call("GET", "/v1beta/models?pageSize=3").json()
    assert len(page["models"]) == 3
    rest = running.call("GET", f"/v1beta/models?pageSize=3&pageToken={page['nextPageToken']}").json()
    assert [model["name"] for model in rest["models"]] == ["models/demo"]
    assert "nextPageToken" not in rest


ONE = [
    ("/v1/models/", {}, lambda model: model["id"]),
    ("/v1/models/", {"anthropic-version": "2023-06-01"}, lambda model: model["type"] == "model" and model["id"]),
    ("/v1beta/models/", {}, lambda model: model["name"].removeprefix("models/")),
]


@pytest.mark.parametrize("name", ["fast", "secret", "qwen3:4b", "claude-opus-5-5", "local/some/other", "demo"])
@pytest.mark.parametrize(("path", "headers", "read"), ONE)
def test_one_model_is_told_by_the_name_it_was_asked_for(
    running: Running, path: str, headers: Mapping[str, str], read: Callable[[Any], str], name: str
) -> None:
    answer = running.call("GET", path + name, headers=headers)
    assert answer.status == 200, answer.body
    assert read(answer.json()) == name


@pytest.mark.parametrize(("path", "headers", "read"), ONE)
def test_a_model_that_nobody_serves_is_a_404_with_the_nearest_names(
    running: Running, path: str, headers: Mapping[str, str], read: Callable[[Any], str]
) -> None:
    answer = running.call("GET", path + "fasst", headers=headers)
    assert answer.status == 404
    assert "fast" in answer.json()["error"]["message"]


# Lists of upstreams.

LISTS: dict[str, Any] = {
    "openai_chat": {"object": "list", "data": [{"id": "big", "object": "model", "max_model_len": 8192}]},
    "openai_responses": {"object": "list", "data": [{"id": "big", "object": "model", "context_length": 8192}]},
    "anthropic": {"data": [{"type": "model", "id": "big", "display_name": "Big", "max_input_tokens": 8192}]},
    "gemini": {"models": [{"name": "models/big", "displayName": "Big", "inputTokenLimit": 8192}]},
    "ollama": {"models": [{"name": "big", "model": "big"}]},
}
TARGETS = {
    "openai_chat": "/v1/models",
    "openai_responses": "/v1/models",
    "anthropic": "/v1/models?limit=1000",
    "gemini": "/v1beta/models?pageSize=1000",
    "ollama": "/api/tags",
}


@pytest.mark.parametrize("upstream", DIALECTS)
def test_an_upstream_whose_models_nobody_has_named_is_asked_for_them_once(upstream: str) -> None:
    with (
        BadServer([expect(), reply(LISTS[upstream])]) as server,
        gateway(at(upstream, server.url, key="the-key")) as running,
    ):
        for _ in range(2):
            assert [model["id"] for model in running.call("GET", "/v1/models").json()["data"]] == ["demo", "big"]
        (received,) = server.requests
        assert (received.method, received.target) == ("GET", TARGETS[upstream])
        assert "the-key" in (received.headers.get("authorization", "") + received.head.decode())
        shown = running.call("GET", "/v1beta/models").json()["models"][1]
        window = None if upstream == "ollama" else 8192  # whose list tells none
        assert (shown["name"], shown.get("inputTokenLimit")) == ("models/big", window)
        assert running.call("GET", "/anthropic/v1/models/big").json().get("max_input_tokens") == window
        assert len(server.requests) == 1


def test_where_two_upstreams_have_a_model_of_one_name_each_has_a_name_that_leads_to_it() -> None:
    with BadServer([expect(), reply(LISTS["openai_chat"])]) as server:
        upstreams = {"a": at("openai_chat", server.url), "b": at("openai_chat", server.url)}
        with gateway(upstreams, models={"small": ModelConfig(upstream="b")}, default_upstream="a") as running:
            names = [model["id"] for model in running.call("GET", "/v1/models").json()["data"]]
            assert names == ["small", "demo", "big", "b/big"]


def test_a_list_of_names_that_nobody_claims_is_not_searched_for_what_they_may_have_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Router, "nearest")  # it takes milliseconds for each name
    with (
        BadServer([expect(), reply(LISTS["openai_chat"])]) as server,
        gateway({name: at("openai_chat", server.url) for name in "ab"}) as running,
    ):
        names = [model["id"] for model in running.call("GET", "/v1/models").json()["data"]]
        assert names == ["demo", "a/big", "b/big"]


@pytest.mark.parametrize("answer", [reply(b"<html>"), reply({}, 404), close()], ids=["page", "404", "cut"])
def test_an_upstream_without_a_list_is_no_harm(answer: Any) -> None:
    with BadServer([expect(), answer]) as server, gateway(at("openai_chat", server.url)) as running:
        assert [model["id"] for model in running.call("GET", "/v1/models").json()["data"]] == ["demo"]
        server.requests.clear()
        assert [model["id"] for model in running.call("GET", "/v1/models").json()["data"]] == ["demo"]
        assert not server.requests  # for a while it is not asked again
        assert running.call("GET", "/v1/models/anything").json()["id"] == "anything"


# Counting.

WORDS = "How many tokens are there in this sentence, and in the tools beside it?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "The city to look up."}}}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": (
        "/v1/messages/count_tokens?beta=true",
        {
            "system": "Be brief.",
            "messages": [{"role": "user", "content": WORDS}],
            "tools": [{"name": "weather", "input_schema": SCHEMA}],
        },
    ),
    "openai_responses": (
        "/v1/responses/input_tokens",
        {
            "instructions": "Be brief.",
            "input": WORDS,
            "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}],
        },
    ),
    "gemini": (
        "/v1beta/models/{model}:countTokens",
        {
            "generateContentRequest": {
                "model": "models/{model}",
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [{"role": "user", "parts": [{"text": WORDS}]}],
                "tools": [{"functionDeclarations": [{"name": "weather", "parameters": SCHEMA}]}],
            }
        },
    ),
}
COUNTS: dict[str, tuple[str, Any]] = {
    "anthropic": ("/v1/messages/count_tokens", {"input_tokens": 4321}),
    "openai_responses": ("/v1/responses/input_tokens", {"object": "response.input_tokens", "input_tokens": 4321}),
    "gemini": ("/v1beta/models/gemini-model:countTokens", {"totalTokens": 4321}),
}
READ: dict[str, Callable[[Any], int]] = {
    "anthropic": lambda answer: answer["input_tokens"],
    "openai_responses": lambda answer: answer["input_tokens"] if answer["object"] == "response.input_tokens" else -1,
    "gemini": lambda answer: answer["totalTokens"],
}


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stage() as running:
        yield running


def count(running: Running, client: str, model: str) -> tuple[int, str]:
    path, body = BODIES[client]
    if client != "gemini":
        body = {"model": model, **body}
    answer = running.call("POST", path.format(model=model), json.dumps(body).replace("{model}", model).encode())
    assert answer.status == 200, answer.body
    return READ[client](answer.json()), answer.headers["x-toolglot-count"]


@pytest.mark.parametrize("upstream", COUNTS)
@pytest.mark.parametrize("client", BODIES)
def test_an_upstream_that_counts_is_asked(scene: Stage, client: str, upstream: str) -> None:
    path, counted = COUNTS[upstream]
    scene.steps(whole=reply(counted))
    assert count(scene.running, client, model_of(upstream)) == (4321, "upstream")
    assert scene.received.target.partition("?")[0] == path
    text = json.dumps(scene.sent)
    assert all(words in text for words in (WORDS, "Be brief.", "weather", "The city to look up."))
    assert not {"max_tokens", "stream", "store"} & scene.sent.keys()


@pytest.mark.parametrize("client", BODIES)
def test_an_upstream_that_cannot_count_is_estimated(scene: Stage, client: str) -> None:
    scene.play("openai_chat", Turn("Nobody asked."))
    tokens, who = count(scene.running, client, model_of("openai_chat"))
    assert who == "estimate"
    assert 50 < tokens < 200
    assert not scene.upstream.requests


FAILURES = {
    "404": reply({"error": {"message": "Not Found"}}, 404),
    "501": reply(b"", 501),
    "nonsense": reply(b"<html>"),
    "another shape": reply({"tokens": "many"}),
    "cut": close(),
}
GEMINIS_NOTHING = ("gemini", "another shape")


@pytest.mark.parametrize(
    ("upstream", "failure"),
    # Gemini's count of nothing is an object without a count.
    [(upstream, failure) for upstream in COUNTS for failure in FAILURES if (upstream, failure) != GEMINIS_NOTHING],
)
@pytest.mark.parametrize("client", BODIES)
def test_an_upstream_that_fails_to_count_is_estimated_and_nobody_is_told_404(
    scene: Stage, client: str, upstream: str, failure: str
) -> None:
    scene.steps(whole=FAILURES[failure])
    tokens, who = count(scene.running, client, model_of(upstream))
    assert who == "estimate"
    assert 50 < tokens < 200


def test_an_upstream_that_is_not_there_is_estimated() -> None:
    with gateway({"gone": at("anthropic", NOWHERE)}) as running:
        assert count(running, "anthropic", "m")[1] == "estimate"


def test_more_to_read_is_more_to_count(scene: Stage) -> None:
    def tokens(**fields: Any) -> int:
        body = {"model": model_of("openai_chat"), "messages": [{"role": "user", "content": WORDS}], **fields}
        answer = scene.running.call("POST", "/v1/messages/count_tokens", json.dumps(body).encode())
        counted: int = answer.json()["input_tokens"]
        return counted

    plain = tokens()
    assert tokens(tools=[{"name": "weather", "input_schema": SCHEMA}]) > plain + 5
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Zürich"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "Rain, and no end of it in sight."}
    turns = [{"role": "user", "content": WORDS}, {"role": "assistant", "content": [call]}]
    assert tokens(messages=[*turns, {"role": "user", "content": [result]}]) > plain + 10
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    assert tokens(messages=[{"role": "user", "content": [{"type": "text", "text": WORDS}, image]}]) > plain


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_the_query_and_the_headers_of_a_count_go_to_an_upstream_of_the_same_dialect(scene: Stage) -> None:
    scene.steps(whole=reply({"input_tokens": 1}))
    body = json.dumps({"model": model_of("anthropic"), **BODIES["anthropic"][1]}).encode()
    headers = {"anthropic-beta": "token-counting-2024-11-01", "anthropic-version": "2026-10-21"}
    scene.running.call("POST", BODIES["anthropic"][0], body, headers)
    assert scene.received.target == "/v1/messages/count_tokens?beta=true"
    assert {name: scene.received.headers[name] for name in headers} == headers


def test_a_count_of_what_is_no_request_is_a_400_in_the_askers_dialect(scene: Stage) -> None:
    for client, (path, _) in BODIES.items():
        answer = scene.running.call("POST", path.format(model="demo"), b'{"model":"demo","messages":1,"contents":1')
        assert answer.status == 400, (client, answer.body)
        assert answer.json()["error"]["message"]


def test_an_alias_is_counted_by_the_model_behind_it() -> None:
    with (
        BadServer([expect(), reply({"input_tokens": 7})]) as upstream,
        gateway(
            {"a": at("anthropic", upstream.url), "b": at("openai_chat", NOWHERE)},
            models={"gpt-*": ModelConfig(upstream="a", model="claude-opus")},
        ) as running,
    ):
        assert count(running, "openai_responses", "gpt-6") == (7, "upstream")
        assert upstream.requests[0].json()["model"] == "claude-opus"


def test_what_a_model_cannot_take_is_not_counted_by_its_upstream() -> None:
    content = [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "input_text", "text": WORDS},
    ]
    body = {"model": "blind", "input": [{"role": "user", "content": content}]}
    with (
        BadServer([expect(), reply({"input_tokens": 7})]) as upstream,
        gateway(
            at("anthropic", upstream.url),
            models={"blind": ModelConfig(upstream="up", quirks={"media_in_user": frozenset()})},
        ) as running,
    ):
        answer = running.call("POST", "/v1/responses/input_tokens", json.dumps(body).encode())
        assert answer.json()["input_tokens"] == 7
        assert WORDS.encode() in upstream.requests[0].body
        assert PIXEL.encode() not in upstream.requests[0].body


def test_the_demo_counts_too() -> None:
    with gateway() as running:
        for client in BODIES:
            tokens, _ = count(running, client, "demo")
            assert 50 < tokens < 200


def test_every_dialect_has_a_list_of_models() -> None:
    assert len(DIALECTS) == 5
    with gateway() as running:
        for path in ("/v1/models", "/anthropic/v1/models", "/v1beta/models", "/api/tags"):
            assert b"demo" in running.call("GET", path).body
