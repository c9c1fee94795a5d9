"""Strict mode refuses what would be lost. An ordinary response in its full published shape loses nothing anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.forms import form
from toolglot import DIALECTS, Exchange

CHAT: dict[str, Any] = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion",
    "created": 1741569952,
    "model": "gpt-4.1-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello! How can I assist you today?",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 19,
        "completion_tokens": 10,
        "total_tokens": 29,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
    "service_tier": "default",
    "system_fingerprint": None,
}
CHAT_CALL: dict[str, Any] = {
    **CHAT,
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_abc123",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"location": "Boston, MA"}'},
                    }
                ],
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
}
RESPONSES: dict[str, Any] = {
    "id": "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
    "object": "response",
    "created_at": 1741476542,
    "status": "completed",
    "completed_at": 1741476543,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "model": "gpt-4.1-2025-04-14",
    "output": [
        {
            "type": "message",
            "id": "msg_67ccd2bf17f0819081ff3bb2cf6508e60bb6a6b452d3795b",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "In a peaceful grove", "annotations": [], "logprobs": []}],
        }
    ],
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 123,
    },
    "user": None,
    "metadata": {},
    "background": False,
    "max_tool_calls": None,
    "service_tier": "default",
    "top_logprobs": 0,
    "safety_identifier": None,
    "prompt_cache_key": None,
    "billing": {"payer": "developer"},
}
RESPONSES_CALL: dict[str, Any] = {
    **RESPONSES,
    "output": [
        {
            "type": "function_call",
            "id": "fc_67ca09c6bedc8190a7abfec07b1a1332096610f474011cc0",
            "call_id": "call_unLAR8MvFNptuiZK6K6HCy5k",
            "name": "get_weather",
            "arguments": '{"location":"Boston, MA"}',
            "status": "completed",
        }
    ],
    "tools": [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Get the weather",
            "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
            "strict": True,
        }
    ],
}
ANTHROPIC: dict[str, Any] = {
    "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-6",
    "content": [{"type": "text", "text": "Hi! My name is Claude.", "citations": None}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
    "usage": {
        "input_tokens": 2095,
        "output_tokens": 503,
        "cache_creation_input_tokens": 2051,
        "cache_read_input_tokens": 2051,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 2051},
        "inference_geo": "global",
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
    },
}
ANTHROPIC_CALL: dict[str, Any] = {
    **ANTHROPIC,
    "content": [
        {"type": "text", "text": "I'll look.", "citations": None},
        {"type": "tool_use", "id": "toolu_01D7FLrfh4GYq7yT1ULFeyMV", "name": "get_weather", "input": {"location": "x"}},
    ],
    "stop_reason": "tool_use",
}
GEMINI: dict[str, Any] = {
    "candidates": [
        {
            "content": {"parts": [{"text": "AI learns from data."}], "role": "model"},
            "finishReason": "STOP",
            "avgLogprobs": -0.12,
            "index": 0,
            "safetyRatings": [{"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "NEGLIGIBLE"}],
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 8,
        "candidatesTokenCount": 11,
        "totalTokenCount": 19,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}],
        "candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 11}],
    },
    "modelVersion": "gemini-2.5-flash",
    "responseId": "mAitaLmkHPPlz7IPvtfUqQ4",
}
GEMINI_CALL: dict[str, Any] = {
    **GEMINI,
    "candidates": [
        {
            "content": {
                "parts": [{"functionCall": {"name": "get_weather", "args": {"location": "x"}}}],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
            "finishMessage": "Model generated function call(s).",
        }
    ],
}
PUBLISHED = {
    "openai_chat": (CHAT, CHAT_CALL),
    "openai_responses": (RESPONSES, RESPONSES_CALL),
    "anthropic": (ANTHROPIC, ANTHROPIC_CALL),
    "gemini": (GEMINI, GEMINI_CALL),
}


@pytest.mark.parametrize("client", list(DIALECTS))
@pytest.mark.parametrize(
    ("upstream", "document"), [(name, document) for name, documents in PUBLISHED.items() for document in documents]
)
def test_a_published_response_reaches_every_client_without_a_loss(
    client: str, upstream: str, document: dict[str, Any]
) -> None:
    exchange = Exchange(client, upstream, strict=True)
    assert form(client, "response").read(exchange.response(json.dumps(document)))
    assert not exchange.receipt.losses


def test_null_arguments_of_gemini_are_no_loss() -> None:
    part = {"functionCall": {"name": "f", "args": None}}
    answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
    (call,) = json.loads(Exchange("openai_chat", "gemini", strict=True).response(answer))["choices"][0]["message"][
        "tool_calls"
    ]
    assert call["function"]["arguments"] == "{}"
