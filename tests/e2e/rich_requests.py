"""Requests that use much of each dialect at once, and variations of them. All are legal: the SDKs' types say so."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SIGNATURE = "c2lnbmF0dXJlIG9mIHRoZSBtb2RlbA=="
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": 15},
        "mode": {"anyOf": [{"const": "now"}, {"type": "string", "pattern": "^in [0-9]+h$"}]},
        "near": {"$ref": "#/$defs/place"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"next": {"$ref": "#/$defs/place"}}}},
}
SHOT = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
REPORT = {
    "type": "object",
    "properties": {"summary": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["summary", "degrees"],
    "additionalProperties": False,
}
CITY = '{"city":"Zürich"}'
URL = '{"url":"https://example.org/"}'

OPENAI_CHAT: Body = {
    "model": "gpt-5.6",
    "messages": [
        {"role": "system", "content": "You are terse."},
        {"role": "developer", "content": "Use the tools."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather, and a picture of the page. Like this one:"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Both at once.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": CITY}},
                {"id": "call_2", "type": "function", "function": {"name": "screenshot", "arguments": URL}},
                {"id": "call_3", "type": "function", "function": {"name": "refresh", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "17 °C"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "it is grey"}]},
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
        {"role": "system", "content": "It is late: be even shorter."},
        {"role": "user", "content": "And tomorrow?"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": WEATHER}},
        {"type": "function", "function": {"name": "screenshot", "parameters": SHOT, "strict": True}},
        {"type": "function", "function": {"name": "refresh"}},
    ],
    "parallel_tool_calls": False,
    "max_completion_tokens": 2000,
    "temperature": 0.3,
    "top_p": 0.9,
    "seed": 7,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "stop": ["END", "STOP"],
    "reasoning_effort": "low",
    "verbosity": "low",
    "safety_identifier": "user-1",
    "metadata": {"purpose": "test"},
    "service_tier": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
}

OPENAI_RESPONSES: Body = {
    "model": "gpt-5.6",
    "instructions": "You are terse.",
    "input": [
        {"role": "developer", "content": "Use the tools."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Weather, and a picture of the page. Like this one:"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Two tools."}],
            "encrypted_content": SIGNATURE,
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Both at once.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": CITY},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "screenshot", "arguments": URL},
        {"type": "function_call", "id": "fc_3", "call_id": "call_3", "name": "refresh", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "call_4", "name": "apply_patch", "input": "*** Begin Patch\n+ ü\n"},
        {"type": "function_call_output", "call_id": "call_1", "output": "17 °C"},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}],
        },
        {"type": "function_call_output", "call_id": "call_3", "output": ""},
        {"type": "custom_tool_call_output", "call_id": "call_4", "output": "patched"},
        {"role": "user", "content": "And tomorrow?"},
    ],
    "tools": [
        {"type": "function", "name": "get_weather", "description": "Weather", "parameters": WEATHER, "strict": False},
        {"type": "function", "name": "screenshot", "parameters": SHOT, "strict": True},
        {"type": "function", "name": "refresh", "parameters": None, "strict": None},
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Patch a file",
            "format": {"type": "grammar", "syntax": "regex", "definition": "[^$]+"},
        },
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "max_output_tokens": 2000,
    "temperature": 0.3,
    "top_p": 0.9,
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"verbosity": "low"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "metadata": {"purpose": "test"},
    "safety_identifier": "user-1",
    "prompt_cache_key": "k",
}

ANTHROPIC: Body = {
    "model": "claude-opus-5-5",
    "max_tokens": 8000,
    "system": [{"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather, and a picture of the page. Like this one:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two tools.", "signature": SIGNATURE},
                {"type": "redacted_thinking", "data": SIGNATURE},
                {"type": "text", "text": "Both at once."},
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Zürich"}},
                {"type": "tool_use", "id": "toolu_2", "name": "screenshot", "input": {"url": "https://example.org/"}},
                {"type": "tool_use", "id": "toolu_3", "name": "refresh", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [
                        {"type": "text", "text": "here:"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    ],
                },
                {"type": "tool_result", "tool_use_id": "toolu_3"},
                {"type": "text", "text": "And tomorrow?", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "system", "content": "It is late: be even shorter."},
    ],
    "tools": [
        {"name": "get_weather", "description": "Weather", "input_schema": WEATHER},
        {"name": "screenshot", "input_schema": SHOT, "strict": True, "cache_control": {"type": "ephemeral"}},
        {"name": "refresh", "input_schema": {"type": "object"}},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "medium"},
    "stop_sequences": ["END"],
    "metadata": {"user_id": "user-1"},
    "service_tier": "auto",
    "stream": True,
}

GEMINI: Body = {
    "systemInstruction": {"parts": [{"text": "You are terse."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Weather, and a picture of the page. Like this one:"},
                {"inlineData": {"mimeType": "image/png", "data": PNG}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Two tools.", "thought": True},
                {"text": "Both at once."},
                {
                    "functionCall": {"id": "fc-1", "name": "get_weather", "args": {"city": "Zürich"}},
                    "thoughtSignature": SIGNATURE,
                },
                {"functionCall": {"name": "screenshot", "args": {"url": "https://example.org/"}}},
                {"functionCall": {"name": "refresh"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "fc-1", "name": "get_weather", "response": {"error": "no such city"}}},
                {
                    "functionResponse": {
                        "name": "screenshot",
                        "response": {"output": "here:"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
                    }
                },
                {"functionResponse": {"name": "refresh", "response": {"count": 3, "names": ["ü"]}}},
            ],
        },
        {"role": "user", "parts": [{"text": "And tomorrow?"}]},
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "get_weather", "description": "Weather", "parametersJsonSchema": WEATHER},
                {
                    "name": "screenshot",
                    "description": "A picture",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"url": {"type": "STRING", "nullable": True}},
                        "required": ["url"],
                    },
                },
                {"name": "refresh", "description": "Refresh"},
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "generationConfig": {
        "temperature": 0.3,
        "topP": 0.9,
        "topK": 40,
        "maxOutputTokens": 2000,
        "stopSequences": ["END"],
        "seed": 7,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "labels": {"purpose": "test"},
}

# A request of which every member means something to everybody.
BARE: dict[str, Body] = {
    "openai_chat": {"model": "gpt-5.6", "messages": [{"role": "user", "content": "Hello"}], "stream": True},
    "openai_responses": {"model": "gpt-5.6", "input": "Hello", "stream": True},
    "anthropic": {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
    },
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
}

RICH = {"openai_chat": OPENAI_CHAT, "openai_responses": OPENAI_RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI}


def _calling(mode: str, *names: str) -> Body:
    allowed = {"allowedFunctionNames": list(names)} if names else {}
    return {"toolConfig": {"functionCallingConfig": {"mode": mode, **allowed}}}


def _chat_function(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def _generation(**settings: Any) -> Body:
    return {"generationConfig": {**GEMINI["generationConfig"], **settings}}


_JSON_SCHEMA = {"type": "json_schema", "name": "report", "schema": REPORT, "strict": True}
_ALLOWED_CHAT = {"mode": "required", "tools": [_chat_function("get_weather"), _chat_function("refresh")]}
_ALLOWED_RESPONSES = [{"type": "function", "name": "get_weather"}, {"type": "function", "name": "refresh"}]
_CHAT_REPORT = {"name": "report", "schema": REPORT, "strict": True}

# dialect -> variation -> the members that differ from the rich request
VARIATIONS: dict[str, dict[str, Body]] = {
    "openai_chat": {
        "bare": {},
        "as-it-is": {},
        "choice-none": {"tool_choice": "none"},
        "choice-required": {"tool_choice": "required"},
        "choice-named": {"tool_choice": _chat_function("get_weather")},
        "choice-allowed": {"tool_choice": {"type": "allowed_tools", "allowed_tools": _ALLOWED_CHAT}},
        "structured": {"response_format": {"type": "json_schema", "json_schema": _CHAT_REPORT}},
        "json": {"response_format": {"type": "json_object"}},
        "not-reasoning": {"reasoning_effort": "none"},
        "legacy": {
            "messages": [
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "content": None,
                    "function_call": {"name": "get_weather", "arguments": CITY},
                },
                {"role": "function", "name": "get_weather", "content": "17 °C"},
            ],
            "functions": [{"name": "get_weather", "parameters": WEATHER}],
            "function_call": "auto",
            "tools": None,
            "parallel_tool_calls": None,
        },
        "custom": {
            "messages": [
                {"role": "user", "content": "Patch it."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": "*** ü\n"}}
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "patched"},
            ],
            "tools": [{"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "text"}}}],
        },
    },
    "openai_responses": {
        "bare": {},
        "as-it-is": {},
        "choice-none": {"tool_choice": "none"},
        "choice-required": {"tool_choice": "required"},
        "choice-named": {"tool_choice": {"type": "function", "name": "get_weather"}},
        "choice-allowed": {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": _ALLOWED_RESPONSES}},
        "structured": {"text": {"format": _JSON_SCHEMA}},
        "json": {"text": {"format": {"type": "json_object"}}},
    },
    "anthropic": {
        "bare": {},
        "as-it-is": {},
        "choice-none": {"tool_choice": {"type": "none"}},
        "choice-any": {"tool_choice": {"type": "any"}},
        "choice-named": {"tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}},
        "structured": {"output_config": {"format": {"type": "json_schema", "schema": REPORT}}},
        "budget": {"model": "claude-sonnet-4-5", "thinking": {"type": "enabled", "budget_tokens": 4000}},
        "not-thinking": {"model": "claude-sonnet-4-5", "thinking": {"type": "disabled"}, "output_config": None},
        "plain": {"system": "You are terse.", "messages": [{"role": "user", "content": "Hello"}], "tools": None},
    },
    "gemini": {
        "bare": {},
        "as-it-is": {},
        "choice-none": _calling("NONE"),
        "choice-any": _calling("ANY"),
        "choice-named": _calling("ANY", "get_weather"),
        "choice-validated": _calling("VALIDATED", "get_weather", "refresh"),
        "structured": _generation(responseMimeType="application/json", responseJsonSchema=REPORT),
        "structured-openapi": _generation(
            responseMimeType="application/json",
            responseSchema={"type": "OBJECT", "properties": {"summary": {"type": "STRING"}}, "required": ["summary"]},
        ),
        "json": _generation(responseMimeType="application/json"),
        "budget": _generation(thinkingConfig={"thinkingBudget": 4000}),
        "not-thinking": _generation(thinkingConfig={"thinkingBudget": 0}),
    },
}


def request(dialect: str, variation: str) -> Body:
    """The rich request of a dialect, varied; a member that is varied to None is left out."""
    if variation == "bare":
        return BARE[dialect]
    body = {**RICH[dialect], **VARIATIONS[dialect][variation]}
    return {key: value for key, value in body.items() if value is not None}
