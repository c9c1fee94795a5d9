"""Models whose template or validator refuses conversations that the API in front of them takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.passes.refused import BRIDGE

Json = dict[str, Any]

TOOLS = [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]


def claude_code(*messages: Json, system: str = "SYS") -> bytes:
    return json.dumps(
        {"model": "m", "max_tokens": 100, "system": system, "messages": messages, "tools": TOOLS}
    ).encode()


def user(*content: Json | str) -> Json:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return {"role": "user", "content": blocks}


def called(*ids: str) -> Json:
    content = [{"type": "tool_use", "id": each, "name": "weather", "input": {}} for each in ids]
    return {"role": "assistant", "content": content}


def result(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "R"}


def sent(upstream: str, model: str, body: bytes, client: str = "anthropic") -> tuple[list[Json], list[str]]:
    """The messages that the upstream gets, and the receipt."""
    exchange = Exchange(client, upstream, model=model)
    wire = json.loads(exchange.request(body))
    return wire["messages"], [f"{line.where}: {line.what}" for line in exchange.receipt]


# Qwen


@pytest.mark.parametrize(("upstream", "model"), [("ollama", "qwen3.8:27b"), ("openai_chat", "Qwen/Qwen3.5-35B-A3B")])
def test_qwen_gets_one_system_message(upstream: str, model: str) -> None:
    later = {"role": "system", "content": "agents"}
    messages, receipt = sent(upstream, model, claude_code(user("a"), later, {"role": "assistant", "content": "ok"}))
    assert [message["role"] for message in messages] == ["system", "user", "user", "assistant"]
    assert "<system-reminder>\nagents\n</system-reminder>" in json.dumps(messages[2]).replace("\\n", "\n")
    assert receipt == ["messages[2]: a later system message"]


def test_qwen_gets_instructions_and_developer_messages_as_one_system_message() -> None:
    body = {
        "model": "m",
        "instructions": "A",
        "input": [{"role": "developer", "content": "B"}, {"role": "user", "content": "hi"}],
    }
    messages, receipt = sent("openai_chat", "qwen3.6-27b", json.dumps(body).encode(), "openai_responses")
    assert [message["role"] for message in messages] == ["system", "user"]
    assert [part["text"] for part in messages[0]["content"]] == ["A", "B"]
    assert "one more system message" in receipt[0]


@pytest.mark.parametrize(("upstream", "model"), [("ollama", "qwen3:8b"), ("openai_chat", "qwen-7b")])
def test_earlier_qwen_models_keep_system_text_in_its_place(upstream: str, model: str) -> None:
    messages, receipt = sent(upstream, model, claude_code(user("a"), {"role": "system", "content": "agents"}))
    assert [message["role"] for message in messages] == ["system", "user", "system"]
    assert receipt == []


# Mistral


MISTRALS = ["devstral-2512", "mistralai/Devstral-Small-2-24B-Instruct-2512", "mistral-large-latest", "Ministral-3-8B"]


@pytest.mark.parametrize("model", MISTRALS)
def test_mistral_gets_an_answer_between_tool_results_and_what_the_user_says(model: str) -> None:
    turn = (user("hi"), called("t1", "t2"), user(result("t1"), result("t2"), "<system-reminder>x</system-reminder>"))
    messages, receipt = sent("openai_chat", model, claude_code(*turn))
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    assert messages[5:] == [
        {"role": "assistant", "content": BRIDGE},
        {"role": "user", "content": "<system-reminder>x</system-reminder>"},
    ]
    assert "a user's message after tool results" in receipt[-1]
    longer, _ = sent("openai_chat", model, claude_code(*turn, {"role": "assistant", "content": "ok"}, user("go")))
    assert longer[: len(messages)] == messages  # the prompt cache lives on it


def test_mistral_gets_a_system_message_of_a_later_turn_in_the_users_message() -> None:
    messages, _ = sent("openai_chat", "devstral-2512", claude_code(user("a"), {"role": "system", "content": "b"}))
    assert [message["role"] for message in messages] == ["system", "user"]
    assert "<system-reminder>" in messages[1]["content"][1]["text"]


def test_a_chat_client_of_mistral_is_helped_too() -> None:
    chat = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "R"},
        {"role": "user", "content": "stop"},
    ]
    body = json.dumps({"model": "devstral-2512", "messages": chat}).encode()
    messages, _ = sent("openai_chat", "devstral-2512", body, "openai_chat")
    assert messages == [*chat[:3], {"role": "assistant", "content": BRIDGE}, chat[3]]


# Gemini behind Chat Completions


UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def extras(messages: list[Json]) -> list[Any]:
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    return [call.get("extra_content") for call in calls]


@pytest.mark.parametrize("model", ["gemini-3.1-pro-preview", "google/gemini-3-flash", "gemini-10-pro"])
def test_the_first_unsigned_call_of_each_step_is_marked_for_gemini_3(model: str) -> None:
    turns = (user("hi"), called("t1", "t2"), user(result("t1"), result("t2")), called("t3"), user(result("t3")))
    messages, receipt = sent("openai_chat", model, claude_code(*turns))
    assert extras(messages) == [UNSIGNED, None, UNSIGNED]
    assert [line.partition(": ")[2] for line in receipt] == ["no thought signature"] * 2
    assert extras(sent("openai_chat", "gemini-2.5-pro", claude_code(*turns))[0]) == [None, None, None]


def test_signed_calls_keep_their_signatures() -> None:
    signed = {"google": {"thought_signature": "SIG"}}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": signed}
    plain = {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "R"},
        {"role": "assistant", "tool_calls": [plain]},
        {"role": "tool", "tool_call_id": "c2", "content": "R"},
    ]
    body = json.dumps({"model": "gemini-3-pro", "messages": chat}).encode()
    messages, _ = sent("openai_chat", "gemini-3-pro", body, "openai_chat")
    assert extras(messages) == [signed, UNSIGNED]


# Kimi


def ids_of(messages: list[Json]) -> list[str]:
    found: list[str] = []
    for message in messages:
        found += [call["id"] for call in message.get("tool_calls") or []]
        found += [message["tool_call_id"]] if message["role"] == "tool" else []
    return found


@pytest.mark.parametrize("model", ["kimi-k2.7", "moonshotai/Kimi-K2-Instruct"])
def test_kimi_k2_gets_call_ids_that_count_over_the_conversation(model: str) -> None:
    turns = (
        user("hi"),
        called("functions_weather_0_3393351a", "toolu_2"),
        user(result("functions_weather_0_3393351a"), result("toolu_2")),
        called("call_9f8e"),
        user(result("call_9f8e")),
    )
    first, receipt = sent("openai_chat", model, claude_code(*turns[:3]))
    assert ids_of(first) == ["functions.weather:0", "functions.weather:1"] * 2
    assert receipt[0].startswith("messages: 2 call ids")
    messages, _ = sent("openai_chat", model, claude_code(*turns))
    assert messages[: len(first)] == first
    assert ids_of(messages)[4:] == ["functions.weather:2"] * 2


def test_ids_of_kimi_k2_itself_stay_as_they_are() -> None:
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "R"},
    ]
    body = json.dumps({"model": "kimi-k2.7", "messages": chat}).encode()
    exchange = Exchange("openai_chat", "openai_chat", model="kimi-k2.7")
    assert exchange.request(body) == body
    assert not exchange.receipt


def test_a_chat_clients_ids_of_another_model_are_those_of_kimi_and_repeated_ones_are_told_apart() -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_0", "content": "R"}]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}, *turn, *turn]}).encode()
    messages, _ = sent("openai_chat", "kimi-k2.7", body, "openai_chat")
    assert ids_of(messages) == ["functions.f:0", "functions.f:0", "functions.f:1", "functions.f:1"]


def test_kimi_k3_takes_any_id() -> None:
    messages, _ = sent("openai_chat", "kimi-k3", claude_code(user("hi"), called("toolu_1"), user(result("toolu_1"))))
    assert ids_of(messages) == ["toolu_1", "toolu_1"]
