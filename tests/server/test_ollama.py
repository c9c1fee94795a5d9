"""Ollama's clients and servers at the gateway: lines of JSON, the routes beside the chat, errors, silence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.loopback import Asked, Loopback, Reply, whole
from tests.exchanges import FOREIGN_PAIRS, calls_of, read_events
from tests.recordings.demos import ASKED as WISHES
from tests.server.gateway import Running, at, gateway, request
from toolglot.config.schema import ModelConfig, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.events import Event, fold, unfold
from toolglot.ir import Text
from toolglot.lint import lint

LINES = "application/x-ndjson"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [TOOL]}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    demos = {f"to_{name}": at(name, "demo:", models=(f"{name}-model",)) for name in DIALECTS}
    with gateway(demos, models={"seeing": ModelConfig(upstream="to_ollama", context_window=8192)}) as started:
        yield started


def lines_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_calls_a_tool_and_goes_on_with_its_result(running: Running, upstream: str, stream: bool) -> None:
    answer = running.ask("ollama", stream=stream, model=f"{upstream}-model", body=ASKED)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(LINES if stream else "application/json")
    heard = fold(read_events("ollama", [answer.body]))
    (call,) = calls_of(heard.content)
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    # The Python client drops the ids of calls: results go by the tool's name.
    called = [{"function": {"name": call.name, "arguments": json.loads(call.arguments)}}]
    spoken = {"role": "assistant", "content": "", "tool_calls": called}
    result = {"role": "tool", "content": "17 degrees", "tool_name": "get_weather"}
    body = {**ASKED, "messages": [*ASKED["messages"], spoken, result]}
    again = running.ask("ollama", stream=stream, model=f"{upstream}-model", body=body)
    said = "".join(block.text for block in fold(read_events("ollama", [again.body])).content if isinstance(block, Text))
    assert "17 degrees" in said
    if stream:
        assert lint("ollama", [answer.body]) == lint("ollama", [again.body]) == []


@pytest.mark.parametrize("client", [client for client, upstream in FOREIGN_PAIRS if upstream == "ollama"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_serves_every_client(running: Running, client: str, stream: bool) -> None:
    answer = running.ask(client, stream=stream or client == "warp", model="ollama-model", body=WISHES.get(client))
    assert answer.status == 200
    heard = fold(_events(client, answer.body, stream))
    assert heard.content if client == "warp" else len(calls_of(heard.content)) == 2


def _events(client: str, body: bytes, stream: bool) -> list[Event]:
    if stream or client == "warp":
        return read_events(client, [body])
    return [*unfold(DIALECTS[client].decode_response(body))]


def test_a_prompt_is_answered_in_the_form_of_generate(running: Running) -> None:
    body = json.dumps({"model": "anthropic-model", "prompt": "Hello you", "system": "Be brief."}).encode()
    answer = running.call("POST", "/api/generate", body)
    lines = lines_of(answer.body)
    assert "".join(line["response"] for line in lines).startswith("You said: “Hello you”")
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    whole = running.call("POST", "/api/generate", body.replace(b"{", b'{"stream":false,', 1))
    assert whole.json()["response"].startswith("You said:")
    assert "message" not in whole.json()


def test_a_stream_is_what_a_request_gets_that_does_not_say(running: Running) -> None:
    _, body = request("ollama", model="gemini-model")
    document = {name: value for name, value in json.loads(body).items() if name != "stream"}
    answer = running.call("POST", "/api/chat", json.dumps(document).encode())
    assert answer.headers["content-type"].startswith(LINES)


@pytest.mark.parametrize("name", ["seeing", "seeing:latest"])
def test_models_are_listed_and_shown_as_open_webui_and_vs_code_want_them(running: Running, name: str) -> None:
    listed = running.call("GET", "/api/tags").json()["models"]
    assert {"seeing", "demo"} <= {entry["name"] for entry in listed}
    assert all(entry["model"] == f"{entry['name']}:toolglot" for entry in listed)
    assert len({entry["digest"][:12] for entry in listed}) == len(listed)  # `ollama list` shows that much
    shown = running.call("POST", "/api/show", json.dumps({"model": name}).encode()).json()
    assert "tools" in shown["capabilities"]
    architecture = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{architecture}.context_length"] == 8192
    version = running.call("GET", "/api/version").json()["version"]
    assert tuple(map(int, version.split("."))) >= (0, 6, 4)
    assert running.call("GET", "/api/ps").json() == {"models": []}


def test_a_model_with_the_tag_latest_is_the_one_without(running: Running) -> None:
    assert running.ask("ollama", model="openai_chat-model:latest", body=ASKED).status == 200


def test_errors_are_told_as_ollama_tells_them(running: Running) -> None:
    unknown = running.ask("ollama", model="unheard-of", body=ASKED)
    assert (unknown.status, unknown.json()["error"].__class__) == (404, str)
    nothing = running.call("POST", "/api/show", b'{"model": "unheard-of"}')
    assert nothing.status == 404
    wrong = running.call("POST", "/api/chat", b'{"model": "m", "messages": 7}')
    assert (wrong.status, "$.messages" in wrong.json()["error"]) == (400, True)
    assert "management of models" in running.call("POST", "/api/pull", b"{}").body.decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "asked", "reason"),
    [
        ("/api/generate", {}, "load"),
        ("/api/generate", {"prompt": "", "system": "Be brief."}, "load"),
        ("/api/generate", {"keep_alive": 0}, "unload"),
        ("/api/chat", {"messages": []}, "load"),
        ("/api/chat", {"messages": [], "keep_alive": "0"}, "unload"),
    ],
)
def test_loading_a_model_asks_no_upstream(
    running: Running, path: str, asked: dict[str, Any], reason: str, stream: bool
) -> None:
    body = json.dumps({"model": "anthropic-model", "stream": stream, **asked}).encode()
    answer = running.call("POST", path, body)
    (line,) = lines_of(answer.body)
    said = line["response"] if path == "/api/generate" else line["message"]["content"]
    assert (answer.status, said, line["done"], line["done_reason"]) == (200, "", True, reason)
    assert "x-toolglot-upstream" not in answer.headers


def test_loading_a_model_goes_to_a_server_of_ollama(running: Running) -> None:
    answer = running.call("POST", "/api/generate", b'{"model": "ollama-model"}')
    assert "x-toolglot-upstream" in answer.headers


def test_loading_a_model_that_is_not_there_is_an_error(running: Running) -> None:
    assert running.call("POST", "/api/generate", b'{"model": "unheard-of"}').status == 404


# A server of Ollama, found or configured by its vendor's name


def whole_answer(**members: Any) -> Reply:
    message = {"role": "assistant", "content": "Hello", **members}
    document = {"model": "qwen3:8b", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True}
    return whole(json.dumps({**document, "done_reason": "stop"}).encode())


def refuse_tools(asked: Asked) -> Reply:
    """An Ollama server whose model has no tools."""
    if "tools" in json.loads(asked.body):
        message = "registry.ollama.ai/library/qwen3:8b does not support tools"
        return Reply(400, json.dumps({"error": message}).encode())
    return whole_answer(content='<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>')


@contextmanager
def ollama_server(answer: Callable[[Asked], Reply], **settings: Any) -> Iterator[tuple[Running, list[Asked]]]:
    """A gateway with this server as its only upstream, by its vendor's name alone."""
    server = Loopback()
    try:
        with server.serving(answer) as served:
            upstream = UpstreamConfig(vendor="ollama", base_url=served.base_url, models=("qwen3:8b",), **settings)
            with gateway({"ollama": upstream}) as running:
                yield running, served.asked
    finally:
        server.close()


def test_the_context_size_of_a_client_reaches_the_server() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "options": {"num_ctx": 32768}, "stream": False}
    with ollama_server(lambda asked: whole_answer()) as (running, asked):
        assert running.ask("ollama", model="qwen3:8b", body=body).json()["message"]["content"] == "Hello"
    assert asked[0].path.endswith("/api/chat")
    assert json.loads(asked[0].body)["options"] == {"num_ctx": 32768}


def test_thinking_images_and_tools_of_another_client_reach_the_server() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    body = {
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image", "source": source}]}],
        "tools": [{"name": "get_weather", "input_schema": TOOL["function"]["parameters"]}],  # type: ignore[index]
    }
    with ollama_server(lambda asked: whole_answer(thinking="Well.")) as (running, asked):
        content = running.ask("anthropic", model="qwen3:8b", body=body).json()["content"]
    assert [(block["type"], block.get("thinking")) for block in content] == [("thinking", "Well."), ("text", None)]
    sent = json.loads(asked[0].body)
    assert sent["think"] is True
    assert sent["messages"][0]["images"] == ["iVBORw0KGgo="]
    assert sent["tools"][0]["function"]["name"] == "get_weather"


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "ollama"])
def test_a_model_without_tools_gets_them_as_text(client: str) -> None:
    bodies: dict[str, Any] = {
        "anthropic": {
            "max_tokens": 99,
            "messages": ASKED["messages"],
            "tools": [{"name": "get_weather", "input_schema": TOOL["function"]["parameters"]}],  # type: ignore[index]
        },
        "openai_chat": ASKED,
        "ollama": ASKED,
    }
    with ollama_server(refuse_tools) as (running, asked):
        answer = running.ask(client, model="qwen3:8b", body=bodies[client])
    calls = calls_of(DIALECTS[client].decode_response(answer.body).content)
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("get_weather", {"city": "Paris"})]
    assert ["tools" in json.loads(each.body) for each in asked] == [True, False]


def test_the_openai_endpoint_is_used_if_the_configuration_says_so() -> None:
    answer = {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}}]}
    with ollama_server(lambda asked: whole(json.dumps(answer).encode()), dialect="openai_chat") as (running, asked):
        assert running.ask("openai_chat", model="qwen3:8b", body={"messages": ASKED["messages"]}).status == 200
    assert asked[0].path.endswith("/v1/chat/completions")
