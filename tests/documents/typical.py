"""Requests as agents send them all day, and the answers of models, in the words of each dialect."""

from __future__ import annotations

from typing import Any

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TYPICAL: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"max_tokens": 1000, "messages": [{"role": "user", "content": "Hello: you"}]},
        {
            "max_tokens": 1000,
            "stream": True,
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
            "metadata": {"user_id": "u"},
            "tools": [{"name": "get_weather", "description": "It tells.", "input_schema": SCHEMA}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Go"}, {"type": "text", "text": "on"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "toolcall1", "name": "get_weather", "input": {"city": "Oslo"}},
                        {"type": "tool_use", "id": "toolcall2", "name": "get_weather", "input": {"city": "Bern"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolcall1", "content": "cold", "is_error": False},
                        {"type": "tool_result", "tool_use_id": "toolcall2", "content": [{"type": "text", "text": "x"}]},
                        {"type": "text", "text": "And now?"},
                    ],
                },
            ],
        },
        {
            "max_tokens": 1000,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
            "messages": [
                {"role": "user", "content": "Go"},
                {"role": "user", "content": [{"type": "text", "text": "on", "cache_control": {"type": "ephemeral"}}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Well:", "signature": "c2ln"},
                        {"type": "tool_use", "id": "toolcall1", "name": "get_weather", "input": {"city": "Oslo"}},
                        {"type": "tool_use", "id": "toolcall2", "name": "get_weather", "input": {"city": "Bern"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolcall2", "content": "No: such", "is_error": True},
                        {
                            "type": "tool_result",
                            "tool_use_id": "toolcall1",
                            "content": "cold",
                            "cache_control": {"type": "ephemeral", "ttl": "1h"},
                        },
                    ],
                },
            ],
        },
    ],
    "openai_chat": [
        {"messages": [{"role": "user", "content": "Hello: you"}]},
        {
            "stream": True,
            "max_tokens": 1000,
            "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
            "tool_choice": "auto",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Go"},
                {
                    "role": "assistant",
                    "content": None,
                    "refusal": None,
                    "tool_calls": [
                        {
                            "id": "toolcall1",
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "toolcall1", "content": "cold"},
            ],
        },
        {
            "max_completion_tokens": 1000,
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": "Where?", "refusal": None, "annotations": [], "audio": None},
                {"role": "user", "content": [{"type": "text", "text": "On"}, {"type": "text", "text": "there"}]},
            ],
        },
    ],
}

ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [
            {"type": "text", "text": "I look: there."},
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 3,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 20,
            "service_tier": "standard",
            "inference_geo": "not_available",
        },
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-x",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "It is: cold.", "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 20,
            "total_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": None,
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-x",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "It is cold.", "annotations": [], "logprobs": []}],
            }
        ],
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 30,
        },
    },
}
