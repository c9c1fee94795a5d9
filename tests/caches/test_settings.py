"""What clients say about prompt caches: carried to whoever has the same, and told elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects import DIALECTS
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

SETTINGS = {"prompt_cache_key": "session-1", "prompt_cache_retention": "24h"}
OPTIONS = {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}
OPENAI = ("openai_chat", "openai_responses")
CONTROL = {"type": "ephemeral", "ttl": "1h"}


def openai_request(dialect: str, **fields: Any) -> dict[str, Any]:
    history = {"messages": [{"role": "user", "content": "Hi"}]} if dialect == "openai_chat" else {"input": "Hi"}
    return {"model": "m", **history, **fields}


def sent(client: str, upstream: str, model: str, request: Any) -> tuple[Any, list[str]]:
    exchange = ExchangeCore(client, upstream, model=model)
    return json.loads(exchange.request(request)), [line.where for line in exchange.receipt]


@pytest.mark.parametrize(("client", "upstream"), [OPENAI, OPENAI[::-1]])
def test_keys_and_retention_are_carried_between_the_apis_of_openai(client: str, upstream: str) -> None:
    body, lines = sent(client, upstream, "gpt-5.1", openai_request(client, **SETTINGS, **OPTIONS))
    assert {name: body[name] for name in SETTINGS} == SETTINGS
    assert "prompt_cache_options" not in body
    assert "prompt_cache_options" in lines


@pytest.mark.parametrize(("client", "upstream"), [OPENAI, OPENAI[::-1]])
@pytest.mark.parametrize("model", ["gpt-5.6", "gpt-5.10", "gpt-6-mini", "openai/gpt-5.6"])
def test_options_are_carried_to_models_that_know_them(client: str, upstream: str, model: str) -> None:
    body, lines = sent(client, upstream, model, openai_request(client, **OPTIONS))
    assert body["prompt_cache_options"] == OPTIONS["prompt_cache_options"]
    assert not [line for line in lines if "cache" in line]


@pytest.mark.parametrize("client", OPENAI)
@pytest.mark.parametrize(
    ("upstream", "model"), [("anthropic", "claude-sonnet-4-5"), ("gemini", "gemini-3-pro"), ("openai_chat", "mistral")]
)
def test_settings_that_the_target_does_not_have_are_told(client: str, upstream: str, model: str) -> None:
    if client == upstream:
        return
    body, lines = sent(client, upstream, model, openai_request(client, **SETTINGS))
    assert "session-1" not in json.dumps(body)
    assert {*SETTINGS} <= {*lines}


def test_what_is_no_setting_of_a_cache_rides_along_in_its_own_dialect() -> None:
    request = openai_request("openai_chat", prompt_cache_key=5, prompt_cache_options="none")
    it = DIALECTS["openai_chat"]
    assert json.loads(it.encode_request(it.decode_request(json.dumps(request).encode()), Receipt())) == request


MARKED = {
    "model": "m",
    "max_tokens": 9,
    "metadata": {"user_id": "user_1_session_2"},
    "system": [{"type": "text", "text": "Be brief.", "cache_control": CONTROL}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
}


@pytest.mark.parametrize("upstream", OPENAI)
@pytest.mark.parametrize(("model", "knows"), [("gpt-4.1", False), ("gpt-5.5", False), ("gpt-5.6", True), ("o4", False)])
def test_breakpoints_go_to_models_that_know_them_and_elsewhere_become_a_key(
    upstream: str, model: str, knows: bool
) -> None:
    body, _ = sent("anthropic", upstream, model, MARKED)
    assert ("prompt_cache_breakpoint" in json.dumps(body)) is knows
    assert ("prompt_cache_key" in body) is not knows
    assert body.get("prompt_cache_retention") == (None if knows else "24h")
    longer = {**MARKED, "messages": [*MARKED["messages"], {"role": "assistant", "content": "Yes?"}]}  # type: ignore[misc]
    again, _ = sent("anthropic", upstream, model, longer)
    assert again.get("prompt_cache_key") == body.get("prompt_cache_key")


@pytest.mark.parametrize("dialect", OPENAI)
def test_a_client_of_a_newer_model_that_gets_an_older_one_loses_its_breakpoints(dialect: str) -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    kind = "text" if dialect == "openai_chat" else "input_text"
    content = [{"type": kind, "text": "Hi", **mark}]
    messages = [{"role": "user", "content": content}]
    request = {"model": "gpt-5.6", ("messages" if dialect == "openai_chat" else "input"): messages, **OPTIONS}
    older, lines = sent(dialect, dialect, "gpt-4.1", request)
    assert "prompt_cache_breakpoint" not in json.dumps(older)
    assert "prompt_cache_options" not in older
    assert {"cache", "prompt_cache_options"} <= {*lines}
    newer, lines = sent(dialect, dialect, "gpt-5.7", request)
    assert newer == {**request, "model": "gpt-5.7"}
    assert lines == []


def test_a_server_of_another_vendor_gets_no_breakpoints_of_openai_but_all_that_it_may_know() -> None:
    openai = {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    common = {"type": "text", "text": "you", "cache_control": CONTROL}
    messages = [{"role": "user", "content": [openai, common]}]
    request = {"model": "gpt-5.6", "messages": messages, "prompt_cache_key": "k", **OPTIONS}
    body, lines = sent("openai_chat", "openai_chat", "qwen3", request)
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Hi"}, common]
    assert (body["prompt_cache_key"], "prompt_cache_options" in body) == ("k", False)
    assert {*lines} == {"cache", "prompt_cache_options"}


CHAT_MARKS: dict[str, dict[str, Any]] = {
    "a part": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": CONTROL}]}]},
    "a message": {"messages": [{"role": "user", "content": "Hi", "cache_control": CONTROL}]},
    "a system message": {
        "messages": [{"role": "system", "content": "S", "cache_control": CONTROL}, {"role": "user", "content": "Hi"}]
    },
    "a tool": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f"}, "cache_control": CONTROL}],
    },
    "inside a function": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "cache_control": CONTROL}}],
    },
    "the request": {"messages": [{"role": "user", "content": "Hi"}], "cache_control": CONTROL},
    "a result": {
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "ok", "cache_control": CONTROL},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    },
}


@pytest.mark.parametrize("name", CHAT_MARKS)
def test_cache_control_of_chat_completions_reaches_claude_and_comes_back(name: str) -> None:
    request = {"model": "m", **CHAT_MARKS[name]}
    body, lines = sent("openai_chat", "anthropic", "claude-sonnet-4-5", request)
    assert json.dumps(body).count(json.dumps(CONTROL)) == 1
    assert not [line for line in lines if "cache" in line]
    it = DIALECTS["openai_chat"]
    assert json.loads(it.encode_request(it.decode_request(json.dumps(request).encode()), Receipt())) == request


def test_cache_control_of_a_whole_request_is_one_of_four_breakpoints_and_none_are_set_beside_it() -> None:
    part = {"type": "text", "text": "Hi " * 5000, "cache_control": CONTROL}
    for marked in (0, 4):
        talk = [{"role": "user", "content": [part] * marked or "Hi " * 5000}]
        request = {"model": "m", "messages": talk, "cache_control": CONTROL}
        exchange = ExchangeCore("openai_chat", "anthropic", model="claude-sonnet-4-5", cache_marks="always")
        body = json.loads(exchange.request(json.dumps(request).encode()))
        assert body["cache_control"] == CONTROL
        assert json.dumps(body).count("cache_control") == (4 if marked else 1)


def test_cache_control_that_cannot_be_read_is_told() -> None:
    request = {"model": "m", "messages": [{"role": "user", "content": "Hi", "cache_control": {"type": "novel"}}]}
    body, lines = sent("openai_chat", "anthropic", "claude-sonnet-4-5", request)
    assert "cache_control" not in json.dumps(body)
    assert "messages[0].cache_control" in lines
