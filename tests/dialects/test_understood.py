"""What a decoder has understood is not kept a second time as something that only its dialect understands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects import DIALECTS
from toolglot.ir import Message, Request

SCHEMA = {"type": "object"}
BASE: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": []},
    "openai_responses": {"model": "m", "input": []},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": []},
    "gemini": {"contents": []},
}
FIELDS: list[tuple[str, dict[str, Any], str]] = [
    *(
        ("openai_chat", {"response_format": form}, "response_format")
        for form in (
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True, "description": "d"}},
        )
    ),
    *(("openai_chat", {"stop": stop}, "stop") for stop in ("x", ["x"])),
    *(("openai_chat", {key: 5}, "max_output_tokens") for key in ("max_tokens", "max_completion_tokens")),
    *(("openai_chat", {key: "u"}, "user") for key in ("user", "safety_identifier")),
    *(("openai_chat", {key: 0.5}, key) for key in ("temperature", "top_p", "presence_penalty", "frequency_penalty")),
    ("openai_chat", {"n": 2}, "candidates"),
    ("openai_chat", {"seed": 2}, "seed"),
    ("openai_chat", {"reasoning_effort": "low"}, "reasoning"),
    ("openai_chat", {"verbosity": "low"}, "verbosity"),
    ("openai_chat", {"metadata": {"a": "b"}}, "metadata"),
    ("openai_chat", {"service_tier": "flex"}, "service_tier"),
    ("openai_chat", {"parallel_tool_calls": True}, "parallel_tool_calls"),
    ("openai_chat", {"tool_choice": "auto"}, "tool_choice"),
    ("openai_chat", {"function_call": "auto"}, "tool_choice"),
    ("openai_chat", {"function_call": {"name": "f"}}, "tool_choice"),
    ("openai_chat", {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ("openai_chat", {"functions": [{"name": "f"}]}, "tools"),
    ("openai_chat", {"stream": True}, "stream"),
    *(
        ("openai_responses", {"text": {"format": form}}, "response_format")
        for form in (
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": "d"},
        )
    ),
    ("openai_responses", {"text": {"verbosity": "low"}}, "verbosity"),
    ("openai_responses", {"max_output_tokens": 5}, "max_output_tokens"),
    *(("openai_responses", {key: "u"}, "user") for key in ("user", "safety_identifier")),
    *(("openai_responses", {key: 0.5}, key) for key in ("temperature", "top_p")),
    ("openai_responses", {"reasoning": {"effort": "low", "summary": "auto"}}, "reasoning"),
    ("openai_responses", {"metadata": {"a": "b"}}, "metadata"),
    ("openai_responses", {"service_tier": "flex"}, "service_tier"),
    ("openai_responses", {"parallel_tool_calls": True}, "parallel_tool_calls"),
    ("openai_responses", {"tool_choice": "auto"}, "tool_choice"),
    ("openai_responses", {"tools": [{"type": "function", "name": "f"}]}, "tools"),
    ("openai_responses", {"instructions": "s"}, "messages"),
    ("openai_responses", {"stream": True}, "stream"),
    ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, "response_format"),
    ("anthropic", {"output_config": {"effort": "low"}}, "reasoning"),
    ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}}, "reasoning"),
    ("anthropic", {"stop_sequences": ["x"]}, "stop"),
    ("anthropic", {"metadata": {"user_id": "u"}}, "user"),
    *(("anthropic", {key: 0.5}, key) for key in ("temperature", "top_p")),
    ("anthropic", {"top_k": 5}, "top_k"),
    ("anthropic", {"service_tier": "auto"}, "service_tier"),
    ("anthropic", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "parallel_tool_calls"),
    ("anthropic", {"tools": [{"name": "f", "input_schema": SCHEMA}]}, "tools"),
    ("anthropic", {"cache_control": {"type": "ephemeral", "ttl": "5m"}}, "cache"),
    ("anthropic", {"system": "s"}, "messages"),
    ("anthropic", {"stream": True}, "stream"),
    *(
        ("gemini", {"generationConfig": {key: 0.5}}, field)
        for key, field in {
            "temperature": "temperature",
            "topP": "top_p",
            "presencePenalty": "presence_penalty",
            "frequencyPenalty": "frequency_penalty",
        }.items()
    ),
    *(
        ("gemini", {"generationConfig": {key: 5}}, field)
        for key, field in {
            "maxOutputTokens": "max_output_tokens",
            "topK": "top_k",
            "candidateCount": "candidates",
            "seed": "seed",
        }.items()
    ),
    ("gemini", {"generationConfig": {"stopSequences": ["x"]}}, "stop"),
    *(("gemini", {"generationConfig": {"responseMimeType": f"{kind}"}}, "response_format") for kind in ("text/plain",)),
    ("gemini", {"generationConfig": {"responseMimeType": "application/json"}}, "response_format"),
    ("gemini", {"generationConfig": {"responseJsonSchema": SCHEMA}}, "response_format"),
    ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5}}}, "reasoning"),
    ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}, "tool_choice"),
    ("gemini", {"tools": [{"functionDeclarations": [{"name": "f"}]}]}, "tools"),
    ("gemini", {"labels": {"a": "b"}}, "metadata"),
    ("gemini", {"serviceTier": "flex"}, "service_tier"),
    ("gemini", {"systemInstruction": {"parts": [{"text": "s"}]}}, "messages"),
]


def kept(value: Any) -> list[str]:
    """The native keys of a node that are no notes on its shape."""
    native = getattr(value, "native", {})
    return [key for fields in native.values() for key in fields if not key.startswith("$")]


@pytest.mark.parametrize(("dialect", "members", "field"), FIELDS, ids=str)
def test_a_field_that_is_understood_is_not_kept_as_unknown(dialect: str, members: dict[str, Any], field: str) -> None:
    request = DIALECTS[dialect].decode_request(json.dumps({**BASE[dialect], **members}).encode())
    value = getattr(request, field)
    assert value != getattr(Request(model=""), field)
    assert kept(request) == []
    for node in value if isinstance(value, tuple) else (value,):
        assert kept(node) == []
        for block in node.content if isinstance(node, Message) else ():
            assert kept(block) == []
