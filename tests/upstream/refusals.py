"""Errors that real upstreams refuse a request with, and what of the request each is about."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "hi"}
TOOL: Json = {"name": "look", "description": "looks", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Json = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}

CHAT: Json = {"model": "m", "messages": [USER]}
MESSAGES: Json = {"model": "claude-x", "max_tokens": 9000, "messages": [USER]}
RESPONSES: Json = {"model": "gpt-5.1", "input": "hi"}
GEMINI: Json = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def openai(message: str, param: str | None = None, code: str | None = None) -> Json:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def anthropic(message: str) -> Json:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}


def google(message: str) -> Json:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def forbidden(*path: str | int) -> Json:
    """As servers built on FastAPI answer."""
    return {"detail": [{"type": "extra_forbidden", "loc": path, "msg": "Extra inputs are not permitted"}]}


def invalid(choices: str, value: str, *path: str | int) -> Json:
    """One error of pydantic's about a value that is none of its choices."""
    message = f"Input should be {choices}"
    return {"type": "literal_error", "loc": path, "msg": message, "input": value, "ctx": {"expected": choices}}


LITERAL_ERROR = (
    "{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'"
    "\", 'input': 'xhigh', 'ctx': {'expected': \"'low', 'medium' or 'high'\"}}"
)

# What a server says to an effort, and which one it is asked for then.
EFFORTS: list[tuple[str, Json, str | None]] = [
    (  # SGLang
        "xhigh",
        {
            "object": "error",
            "message": f'1 validation error:\n  {LITERAL_ERROR}\n\n  File "http_server.py", line 1324, in'
            f" openai_v1_chat_completions\n    POST /v1/chat/completions [{LITERAL_ERROR}]",
            "type": "Bad Request",
            "param": None,
            "code": 400,
        },
        "high",
    ),
    (  # vLLM behind LiteLLM, which quotes it
        "xhigh",
        openai("litellm.BadRequestError: Hosted_vllmException - " + json.dumps({"error": {"message": LITERAL_ERROR}})),
        "high",
    ),
    ("xhigh", {"detail": [invalid("'low', 'medium' or 'high'", "xhigh", "body", "reasoning_effort")]}, "high"),
    ("minimal", {"detail": [invalid("'low', 'medium' or 'high'", "minimal", "body", "reasoning_effort")]}, "low"),
    (  # pydantic's own text
        "max",
        openai(
            "1 validation error for ChatCompletionRequest\nreasoning_effort\n  Input should be 'low', 'medium' or"
            " 'high' [type=literal_error, input_value='max', input_type=str]"
        ),
        "high",
    ),
    (  # pydantic 1
        "xhigh",
        {
            "detail": [
                {
                    "loc": ["body", "reasoning_effort"],
                    "msg": "unexpected value; permitted: 'low', 'medium', 'high'",
                    "type": "value_error.const",
                }
            ]
        },
        "high",
    ),
    (  # GitHub Copilot, which names no parameter
        "xhigh",
        {
            "error": {
                "message": "Unsupported value: 'xhigh' is not supported with the 'gpt-5-mini' model. Supported values"
                " are: 'minimal', 'low', 'medium', and 'high'.",
                "code": "invalid_request_body",
            }
        },
        "high",
    ),
    (  # Kimi
        "xhigh",
        openai("Validation error for `reasoning_effort`: expected one of 'low' | 'medium' | 'high', received 'xhigh'"),
        "high",
    ),
    ("max", openai('level "max" not supported, valid levels: low, medium, high, xhigh'), "xhigh"),
    (  # Ollama
        "xhigh",
        openai('invalid reasoning value: \'xhigh\' (must be "high", "medium", "low", or "none")'),
        "high",
    ),
    ("high", openai('think value "high" is not supported for this model'), None),
    ("high", openai('"qwen2.5:7b" does not support thinking'), None),
]


BASES: dict[str, Json] = {
    "openai_chat": CHAT,
    "anthropic": MESSAGES,
    "openai_responses": RESPONSES,
    "gemini": GEMINI,
    "ollama": CHAT,
}


# (dialect, what else is in the request, the error, what must differ in the second request: None is absent)
FIELDS: list[tuple[str, Json, Json, Json]] = [
    (
        "openai_chat",
        {"max_tokens": 100},
        openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model."
            " Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        {"max_tokens": None, "max_completion_tokens": 100},
    ),
    (
        "openai_chat",
        {"max_completion_tokens": 100},
        forbidden("body", "max_completion_tokens"),
        {"max_tokens": 100, "max_completion_tokens": None},
    ),
    (
        "openai_chat",
        {"temperature": 0, "top_p": 0.5},
        openai(
            "Unsupported value: 'temperature' does not support 0 with this model."
            " Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        {"temperature": None, "top_p": 0.5},
    ),
    (
        "openai_chat",
        {"tools": [FUNCTION], "parallel_tool_calls": True},
        openai("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", "parallel_tool_calls"),
        {"parallel_tool_calls": None},
    ),
    (
        "openai_chat",
        {"seed": 7, "stop": ["x"]},
        openai("Unrecognized request argument supplied: seed"),
        {"seed": None, "stop": ["x"]},
    ),
    ("openai_chat", {"store": True}, openai("property 'store' is unsupported, did you mean 'stop'?"), {"store": None}),
    (
        "openai_chat",
        {"reasoning_effort": "high"},
        openai("property 'reasoning_effort' is unsupported, did you mean 'reasoning_format'?"),
        {"reasoning_effort": None},
    ),
    (
        "openai_chat",
        {"reasoning_effort": "none"},
        openai("Model grok-4.20-0309-non-reasoning does not support parameter reasoningEffort."),
        {"reasoning_effort": None},
    ),
    (
        "openai_chat",
        {"presence_penalty": 0.5},
        openai("Argument not supported on this model: presencePenalty"),
        {"presence_penalty": None},
    ),
    (
        "openai_chat",
        {"frequency_penalty": 0.1},
        {
            "object": "error",
            "message": '{"detail":[{"type":"extra_forbidden","loc":["body","frequency_penalty"],"msg":"Extra inputs'
            ' are not permitted","input":0.1}]}',
        },
        {"frequency_penalty": None},
    ),
    (
        "openai_chat",
        {"stream": True, "stream_options": {"include_usage": True}},
        openai("Unknown parameter: 'stream_options'.", "stream_options", "unknown_parameter"),
        {"stream": True, "stream_options": None},
    ),
    (
        "openai_chat",
        {"reasoning_effort": "high", "parallel_tool_calls": True, "tools": [FUNCTION], "seed": 1},
        openai(
            "litellm.UnsupportedParamsError: ollama does not support parameters: ['reasoning_effort',"
            " 'parallel_tool_calls'], for model=phi4-mini:3.8b. To drop these, set litellm.drop_params=True"
        ),
        {"reasoning_effort": None, "parallel_tool_calls": None},
    ),
    (
        "openai_chat",
        {"reasoning_effort": "high"},
        openai("litellm.UnsupportedParamsError: x does not support parameters: ['reasoning_effort'], for model=y"),
        {"reasoning_effort": None},
    ),
    (
        "openai_responses",
        {"max_output_tokens": 100},
        {"detail": "Unsupported parameter: max_output_tokens"},
        {"max_output_tokens": None},
    ),
    (
        "openai_chat",
        {"max_tokens": 32000},
        openai(
            "Invalid 'max_tokens': integer above maximum value. Expected a value <= 16384, but got 32000 instead.",
            "max_tokens",
            "integer_above_max_value",
        ),
        {"max_tokens": 16384},
    ),
    (
        "openai_chat",
        {"max_completion_tokens": 32000},
        openai("integer above maximum value. Expected a value <= 16384", "max_completion_tokens"),
        {"max_completion_tokens": 16384},
    ),
    (
        "openai_chat",
        {"max_completion_tokens": 32000},
        openai(
            "`max_completion_tokens` must be less than or equal to `16384`, the maximum value for"
            " `max_completion_tokens` is less than the `context_window` for this model"
        ),
        {"max_completion_tokens": 16384},
    ),
    (
        "openai_chat",
        {"max_tokens": 32000},
        openai("max_tokens must be less than or equal to 16384"),
        {"max_tokens": 16384},
    ),
    (
        "openai_chat",
        {"max_tokens": 32000},
        openai("The maximum tokens you requested exceeds the model limit of 16384."),
        {"max_tokens": 16384},
    ),
    ("openai_chat", {"logprobs": True}, openai("Unknown parameter: 'logprobs'."), {"logprobs": None}),
    (
        "openai_chat",
        {"logit_bias": {"1": 2}},
        openai("It is not supported.", "logit_bias", "unsupported_parameter"),
        {"logit_bias": None},
    ),
    (
        "openai_chat",
        {"verbosity": "low"},
        openai("Unsupported value: 'low' is not supported with the 'm' model.", "verbosity", "unsupported_value"),
        {"verbosity": None},
    ),
    (
        "openai_chat",
        {"max_tokens": 32000},
        openai("max_tokens is too large: 32000. This model supports at most 16384 completion tokens", "max_tokens"),
        {"max_tokens": 16384},
    ),
    (
        "openai_chat",
        {"max_tokens": 32000},
        openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        {"max_tokens": 8192},
    ),
    (
        "openai_chat",
        {"max_tokens": 32000},
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768"
            " tokens and your request has 1215 input tokens (32000 > 32768 - 1215)."
        ),
        {"max_tokens": 31552},
    ),
    (
        "openai_chat",
        {"max_tokens": 8000},
        openai(
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the"
            " messages, 8000 in the completion). Please reduce the length of the messages or completion."
        ),
        {"max_tokens": 7191},
    ),
    (
        "openai_chat",
        {"reasoning_effort": "none"},
        openai(
            "Unsupported value: 'reasoning_effort' does not support 'none' with this model."
            " Supported values are: 'minimal', 'low', 'medium', and 'high'."
        ),
        {"reasoning_effort": "minimal"},
    ),
    (
        "openai_chat",
        {"reasoning_effort": "high"},
        openai("`reasoning_effort` must be one of `none` or `default`"),
        {"reasoning_effort": None},
    ),
    (
        "openai_responses",
        {"reasoning": {"effort": "minimal"}},
        openai(
            "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model."
            " Supported values are: 'none', 'low', 'medium', and 'high'.",
            "reasoning.effort",
            "unsupported_value",
        ),
        {"reasoning": {"effort": "low"}},
    ),
    (
        "openai_responses",
        {"reasoning": {"effort": "low", "summary": "auto"}},
        openai(
            "Your organization must be verified to generate reasoning summaries.",
            "reasoning.summary",
            "unsupported_value",
        ),
        {"reasoning": {"effort": "low"}},
    ),
    (
        "openai_responses",
        {"text": {"verbosity": "low"}},
        openai("Unsupported parameter: 'text.verbosity' is not supported with this model.", "text.verbosity"),
        {"text": None},
    ),
    (
        "openai_responses",
        {"prompt_cache_retention": "24h"},
        openai("Unknown parameter: 'prompt_cache_retention'.", "prompt_cache_retention", "unknown_parameter"),
        {"prompt_cache_retention": None},
    ),
    (
        "openai_chat",
        {"prompt_cache_key": "k", "seed": 7},
        forbidden("body", "prompt_cache_key"),
        {"prompt_cache_key": None, "seed": 7},
    ),
    (
        "anthropic",
        {"context_management": {"edits": []}},
        anthropic("context_management: Extra inputs are not permitted"),
        {"context_management": None},
    ),
    (
        "anthropic",
        {"temperature": 0.5, "top_p": 0.5},
        anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
        {"temperature": 0.5, "top_p": None},
    ),
    (
        "anthropic",
        {"temperature": 0.5},
        anthropic("`temperature` is deprecated for this model."),
        {"temperature": None},
    ),
    ("anthropic", {"temperature": 1.5}, anthropic("temperature: range: 0..1"), {"temperature": 1.0}),
    ("anthropic", {"top_k": 5}, anthropic("`top_k` must be unset when thinking is enabled."), {"top_k": None}),
    (
        "anthropic",
        {"output_config": {"effort": "high"}},
        anthropic("This model does not support the effort parameter."),
        {"output_config": None},
    ),
    (
        "anthropic",
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        anthropic("output_config: Extra inputs are not permitted"),
        {"thinking": {"type": "adaptive"}, "output_config": None},
    ),
    (
        "anthropic",
        {"output_config": {"effort": "xhigh"}},
        {
            "error": {
                "message": 'output_config.effort "xhigh" is not supported by model claude-x; supported values:'
                " [medium]",
                "code": "invalid_reasoning_effort",
            }
        },
        {"output_config": {"effort": "medium"}},
    ),
    (
        "anthropic",
        {"thinking": {"type": "enabled", "budget_tokens": 4000}},
        anthropic(
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and'
            ' "output_config.effort" to control thinking behavior.'
        ),
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "medium"}},
    ),
    (
        "anthropic",
        {"thinking": {"type": "adaptive"}},
        anthropic("adaptive thinking is not supported on this model"),
        {"thinking": {"type": "enabled", "budget_tokens": 8192}},
    ),
    (
        "anthropic",
        {},
        anthropic("max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for claude-x"),
        {"max_tokens": 8192},
    ),
    (
        "anthropic",
        {"tools": [{**TOOL, "strict": True}]},
        anthropic("tools.0.custom.strict: Extra inputs are not permitted"),
        {"tools": [TOOL]},
    ),
    (
        "anthropic",
        {"tools": [{**TOOL, "input_examples": [{}]}]},
        anthropic("tools.0.custom.input_examples: Extra inputs are not permitted"),
        {"tools": [TOOL]},
    ),
    (
        "anthropic",
        {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "scope": "global"}}]},
        anthropic("system.0.cache_control.ephemeral.scope: Extra inputs are not permitted"),
        {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
    ),
    (
        "gemini",
        {"generationConfig": {"presencePenalty": 1, "frequencyPenalty": 1, "topP": 0.5}},
        google("Penalty is not enabled for models/gemini-2.5-flash"),
        {"generationConfig": {"topP": 0.5}},
    ),
    (
        "gemini",
        {"generationConfig": {"responseLogprobs": True, "logprobs": 3}},
        google("Logprobs is not enabled for models/gemini-2.5-pro"),
        {"generationConfig": None},
    ),
    (
        "gemini",
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
        google("Thinking level is not supported for this model."),
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1024}}},
    ),
    (
        "gemini",
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        google("Thinking is not enabled for models/gemini-2.0-flash-preview-image-generation"),
        {"generationConfig": None},
    ),
    (
        "gemini",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5}, "seed": 1}},
        google(
            "Invalid JSON payload received. Unknown name \"thinkingConfig\" at 'generation_config': Cannot find field."
        ),
        {"generationConfig": {"seed": 1}},
    ),
    (
        "gemini",
        {"generationConfig": {"maxOutputTokens": 65536}},
        google(
            "Unable to submit request because it has a maxOutputTokens value of 65536 but the supported range is from 1"
            " (inclusive) to 8193 (exclusive). Update the value and try again."
        ),
        {"generationConfig": {"maxOutputTokens": 8192}},
    ),
    (
        "gemini",
        {"tools": [{"googleSearch": {}}], "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
        google("Function calling config is set without function_declarations."),
        {"toolConfig": None},
    ),
    *(
        ("openai_chat", {"reasoning_effort": asked}, error, {"reasoning_effort": sent})
        for asked, error, sent in EFFORTS
    ),
    (
        "openai_chat",
        {"reasoning_effort": "max", "max_completion_tokens": 100, "store": True, "seed": 7},
        {
            "detail": [
                invalid("'low', 'medium' or 'high'", "max", "body", "reasoning_effort"),
                *forbidden("body", "max_completion_tokens")["detail"],
                *forbidden("body", "store")["detail"],
            ]
        },
        {"reasoning_effort": "high", "max_completion_tokens": None, "max_tokens": 100, "store": None, "seed": 7},
    ),
    (
        "openai_chat",
        {"service_tier": "flex", "seed": 7},
        {"detail": [invalid("'auto' or 'default'", "flex", "body", "service_tier")]},
        {"service_tier": None, "seed": 7},
    ),
    (  # `user` is the kind of message here and not the field of that name
        "openai_chat",
        {"messages": [{**USER, "name": "Ann"}], "user": "u1"},
        forbidden("body", "messages", 0, "user", "name"),
        {"messages": [USER]},
    ),
    (
        "openai_responses",
        {"reasoning": {"effort": "xhigh"}},
        {"detail": [invalid("'low', 'medium' or 'high'", "xhigh", "body", "reasoning", "effort")]},
        {"reasoning": {"effort": "high"}},
    ),
    ("ollama", {"think": True}, {"error": '"qwen2.5:7b" does not support thinking'}, {"think": None}),
]
