"""Only the model calls tools. Google's Python SDK may leave out the role of a content, and other clients write roles of
their own: a call in such a message is still the assistant's, with its result behind it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.translate import ExchangeCore

CALL = {"functionCall": {"name": "f", "args": {"a": 1}}}
RESULT = {"functionResponse": {"name": "f", "response": {"output": "ok"}}}
GO = {"role": "user", "parts": [{"text": "go"}]}


def chat_messages(client: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    exchange = ExchangeCore(client, "openai_chat", model="m")
    return list(json.loads(exchange.request(body))["messages"])


GEMINI = [
    [GO, {"parts": [CALL]}, {"parts": [RESULT]}],
    [GO, {"parts": [{"text": "Let me see."}, CALL]}, {"role": "user", "parts": [RESULT]}],
    [GO, {"role": "", "parts": [CALL]}, {"role": "function", "parts": [RESULT]}],
    [GO, {"role": "user", "parts": [CALL]}, {"role": "user", "parts": [RESULT]}],
    [GO, {"parts": [CALL, RESULT]}],
    [GO, {"role": "agent", "parts": [CALL]}, {"parts": [RESULT]}],
]


@pytest.mark.parametrize("contents", GEMINI)
def test_a_call_of_gemini_without_a_role_is_the_assistants(contents: list[dict[str, Any]]) -> None:
    user, assistant, tool = chat_messages("gemini", {"contents": contents})
    assert (user["role"], assistant["role"], tool["role"]) == ("user", "assistant", "tool")
    (call,) = assistant["tool_calls"]
    assert tool == {"role": "tool", "tool_call_id": call["id"], "content": "ok"}


@pytest.mark.parametrize("contents", GEMINI)
def test_contents_of_gemini_go_back_as_they_came(contents: list[dict[str, Any]]) -> None:
    exchange = ExchangeCore("gemini", "gemini", model="m", verbatim=False)
    assert json.loads(exchange.request({"contents": contents}))["contents"] == contents


@pytest.mark.parametrize("role", ["model", "ai", "user"])
def test_a_call_in_a_message_of_an_unknown_role_is_the_assistants(role: str) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    anthropic = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "go"},
            {"role": role, "content": [use]},
            {"role": "user", "content": [answer]},
        ],
    }
    ollama = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": role, "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_name": "f", "content": "ok"},
        ],
    }
    for client, body in (("anthropic", anthropic), ("ollama", ollama)):
        user, assistant, tool = chat_messages(client, body)
        assert (user["role"], assistant["role"], tool["role"]) == ("user", "assistant", "tool")
        assert tool["tool_call_id"] == assistant["tool_calls"][0]["id"]
        assert tool["content"] == "ok"


def test_the_receipt_says_that_a_call_has_changed_its_role() -> None:
    exchange = ExchangeCore("gemini", "openai_chat", model="m")
    exchange.request({"contents": GEMINI[3]})
    assert ("note", "messages[1]") in [(line.severity, line.where) for line in exchange.receipt]
