"""Settings that once vanished without a word: carried where the target has them, and told elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange

HELLO: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"model": "m", "input": "Hi"},
    "anthropic": {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


def sent(source: str, target: str, members: dict[str, Any], model: str = "m") -> tuple[dict[str, Any], list[str]]:
    exchange = Exchange(source, target)
    body = json.loads(exchange.request({**HELLO[source], **members}, model=model))
    return body, [f"{line.severity} {line.where}" for line in exchange.receipt if line.where != "max_output_tokens"]


KEEP_ALL = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
CLEAR = {"edits": [{"type": "clear_tool_uses_20250919"}]}
TOLD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("anthropic", {"context_management": CLEAR}, ["loss context_management"]),
    ("anthropic", {"context_management": KEEP_ALL}, []),
    ("anthropic", {"diagnostics": {"previous_message_id": "m_1"}}, ["note diagnostics"]),
    ("anthropic", {"anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["x"]}, []),
    ("openai_responses", {"context_management": [{"type": "compaction"}]}, ["loss context_management"]),
    ("openai_responses", {"truncation": "auto"}, ["loss truncation"]),
    ("openai_responses", {"truncation": "disabled"}, []),
    ("openai_responses", {"reasoning": {"context": "all_turns"}}, ["note reasoning.context"]),
    ("openai_responses", {"client_metadata": {"session": "s"}}, ["note client_metadata"]),
    ("openai_responses", {"include": ["reasoning.encrypted_content"]}, []),
    ("openai_responses", {"include": ["file_search_call.results"]}, ["loss include"]),
    ("openai_responses", {"store": False}, ["note store"]),
    ("openai_responses", {"max_tool_calls": 3}, ["loss max_tool_calls"]),
    ("openai_responses", {"moderation": {"model": "omni"}}, ["loss moderation"]),
    ("openai_chat", {"web_search_options": {}}, ["loss web_search_options"]),
    ("openai_chat", {"modalities": ["text"]}, []),
    ("openai_chat", {"modalities": ["text", "audio"]}, ["loss modalities"]),
    ("openai_chat", {"stream_options": {"include_usage": True}}, []),
    ("openai_chat", {"stream_options": {"novel": True}}, ["loss stream_options.novel"]),
    ("openai_chat", {"n": 3}, ["loss candidates"]),
    ("openai_chat", {"include_reasoning": False}, ["note include_reasoning"]),
    ("openai_responses", {"background": False}, []),
]


@pytest.mark.parametrize(("source", "members", "lines"), TOLD, ids=str)
def test_a_setting_that_gemini_lacks_is_told_unless_it_says_nothing(
    source: str, members: dict[str, Any], lines: list[str]
) -> None:
    assert sent(source, "gemini", members, "gemini-3-pro")[1] == lines


@pytest.mark.parametrize("modalities", [["TEXT"], ["Text"]])
def test_an_answer_of_text_is_what_every_api_gives(modalities: list[str]) -> None:
    members = {"generationConfig": {"responseModalities": modalities}}
    assert sent("gemini", "openai_chat", members)[1] == []
    members = {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}
    assert sent("gemini", "openai_chat", members)[1] == ["loss generationConfig.responseModalities"]


def test_the_phase_of_an_assistants_words_is_told() -> None:
    spoken = {"type": "message", "role": "assistant", "phase": "commentary", "content": "Well"}
    _, lines = sent("openai_responses", "openai_chat", {"input": [HELLO["openai_chat"]["messages"][0], spoken]})
    assert lines == ["note messages[1].phase"]


def test_the_content_of_a_citation_is_told() -> None:
    citation = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1}
    text = {"type": "output_text", "text": "Well", "annotations": [{**citation, "content": "as it stood there"}]}
    items = [HELLO["openai_chat"]["messages"][0], {"type": "message", "role": "assistant", "content": [text]}]
    _, lines = sent("openai_responses", "gemini", {"input": items}, "gemini-3-pro")
    assert "loss messages[1].content[0].citations[0].content" in lines


def test_what_is_to_be_stored_is_stored_where_that_is_possible() -> None:
    assert sent("openai_chat", "openai_responses", {"store": True})[0]["store"] is True
    assert sent("gemini", "openai_responses", {"store": True})[0]["store"] is True
    assert sent("openai_responses", "openai_chat", {"store": True}, "gpt-4.1")[0]["store"] is True
    body, lines = sent("openai_responses", "openai_chat", {"store": True}, "llama-4")
    assert "store" not in body
    assert lines == ["note store"]
    assert sent("openai_chat", "openai_responses", {})[0]["store"] is False


def test_a_faster_service_is_asked_for_in_each_apis_words() -> None:
    assert sent("anthropic", "openai_chat", {"speed": "fast"})[0]["service_tier"] == "priority"
    assert sent("anthropic", "gemini", {"speed": "fast"})[0]["serviceTier"] == "priority"
    assert sent("openai_chat", "gemini", {"service_tier": "fast"})[0]["serviceTier"] == "priority"
    for tier in ("fast", "priority"):
        body, lines = sent("openai_chat", "anthropic", {"service_tier": tier})
        assert (body["service_tier"], lines) == ("auto", ["note service_tier"])
    body, lines = sent("openai_chat", "anthropic", {"service_tier": "flex"})
    assert "service_tier" not in body
    assert lines == ["loss service_tier"]


@pytest.mark.parametrize(
    "members", [{"speed": "fast"}, {"speed": "standard"}, {"speed": "fast", "service_tier": "auto"}, {"speed": "novel"}]
)
def test_within_messages_the_speed_stays_as_it_is(members: dict[str, Any]) -> None:
    exchange = Exchange("anthropic", "anthropic", verbatim=False)
    body = {**HELLO["anthropic"], **members}
    assert json.loads(exchange.request(body)) == body


def test_tools_that_an_item_brings_and_that_are_no_functions_are_told() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [{"type": "file_search", "vector_store_ids": []}]}
    _, lines = sent(
        "openai_responses", "gemini", {"input": [item, HELLO["openai_chat"]["messages"][0]]}, "gemini-3-pro"
    )
    assert "loss messages[0].content[0].tools[0]" in lines


def test_a_repeated_key_of_arguments_is_told_where_it_is_dropped() -> None:
    pytest.importorskip("google.protobuf")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "a": 2}'}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    exchange = Exchange("openai_chat", "warp")
    exchange.request({"model": "m", "messages": messages, "tools": [{"type": "function", "function": {"name": "f"}}]})
    assert "a repeated key of the arguments" in [line.what for line in exchange.receipt.losses]
    for target, form in (("anthropic", b'"input":{"a": 1, "a": 2}'), ("gemini", b'"args":{"a": 1, "a": 2}')):
        assert form in Exchange("openai_chat", target).request({"model": "m", "messages": messages})
