"""Capabilities of Chat Completions, and differences between models."""

from __future__ import annotations

from toolglot.capabilities import (
    AnswerCapabilities,
    CallCapabilities,
    CallIdRules,
    Capabilities,
    MediaCapabilities,
    MessageCapabilities,
    ParameterCapabilities,
    ReasoningCapabilities,
    ReceiptRules,
    RequestLimits,
    ToolCapabilities,
    ToolNameRules,
)
from toolglot.dialect import ModelRule
from toolglot.dialects.openai_chat import content_filters
from toolglot.wire.claude_models import CACHE_MODELS
from toolglot.wire.efforts import OPENAI_MODELS, SCALE, WIDELY_KNOWN
from toolglot.wire.openai_fields import BREAKPOINT_MODELS, SAMPLING_MODELS
from toolglot.wire.strict_models import MISTRAL, STRICT_MODELS

CAPABILITIES = Capabilities(
    parameters=ParameterCapabilities(
        fields=frozenset(
            {
                "tool_choice",
                "parallel_tool_calls",
                "max_output_tokens",
                "temperature",
                "top_p",
                "top_k",
                "seed",
                "presence_penalty",
                "frequency_penalty",
                "stop",
                "candidates",
                "logprobs",
                "top_logprobs",
                "response_format",
                "reasoning",
                "verbosity",
                "user",
                "metadata",
                "service_tier",
            }
        ),
    ),
    limits=RequestLimits(max_stop_sequences=4),
    names=ToolNameRules(max_length=64),
    ids=CallIdRules(
        # The documented limit moved from 40 to 64; the shorter one is safe with every imitator.
        max_length=40,
        state_mark="__thought__",  # LiteLLM puts Gemini's signature behind it (BerriAI/litellm #16895)
    ),
    tools=ToolCapabilities(
        # Every server supports these tools and roles; OpenAI's own supports more.
        custom=False,
        strict_all_required=True,
        schema="object",
        parameters_optional=True,
        max_count=128,
        array_items=True,
    ),
    calls=CallCapabilities(broken="as_text"),
    messages=MessageCapabilities(
        developer_role=False,
        refusals=True,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "audio", "document"}),
        source_kinds=frozenset({"base64", "url", "file"}),
        source_kinds_by_media={
            "document": frozenset({"base64", "file"}),
            "image": frozenset({"base64", "url"}),
            "audio": frozenset({"base64"}),
        },
        file_store="openai",
    ),
    reasoning=ReasoningCapabilities(
        in_history="text",
        efforts=SCALE,
        can_hide=False,
    ),
    answers=AnswerCapabilities(
        tiers=frozenset({"auto", "default", "flex", "scale", "priority", "fast"}),
        rough_stops={"context_full": "length"},
    ),
    receipt=ReceiptRules(
        informational=frozenset({"system_fingerprint"}),
        containers=frozenset(
            {
                "$thinking",
                "beside",
                "chat_template_kwargs",
                "choice",
                "content",
                "custom",
                "function",
                "logprobs",
                "message",
                "reasoning",
                "stream_options",
                "thinking",
            }
        ),
        request_paths={"beside": ""},
        answer_paths={"choice": "choices[0]", "message": "choices[0].message", "choices": "choices[1]"},
        further_answers="choices",
        assumed={"modalities": (["text"],), "closed": (True,)},
        noted={
            "include_obfuscation": "toolglot writes the client's stream, and pads nothing",
            **dict.fromkeys(sorted(content_filters.MEMBERS), content_filters.REASON),
        },
        reasoning_members=frozenset(
            {
                "reasoning_details",
                "thinking_blocks",
                "reasoning_summary",
                "reasoning_opaque",
                "extra_content",
                "provider_specific_fields",
            }
        ),
        cosmetic={
            "include_usage": "toolglot writes the client's stream, with its usage",
            "object": "the type of the document, which each API names differently",
            "service_tier": "where an answer was made",
            "system_fingerprint": "where an answer was made",
        },
    ),
)

SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"})

_OF_OPENAI = (CAPABILITIES.parameters.fields | {"store", "legacy_user", "moderation"}) - {"top_k"}

_NOT_GEMINI = (
    r"^(?!.*gemini).*((^|/)(gpt-|chatgpt|codex|o[1-9](-|$))|claude|deepseek|qwen|glm-|kimi|llama|grok|minimax"
    r"|mistral|ministral|codestral|devstral|magistral)"
)
"""Models of other vendors. Any other name may be an alias of Gemini's."""

MODELS = (
    ModelRule(
        r"^demo", {"fields": CAPABILITIES.parameters.fields - {"top_k"}}, "the demo follows rules and samples nothing"
    ),
    ModelRule(
        r"(^|/)(gpt-(?!oss)|chatgpt|codex-|o[1-9](-|$))",
        {
            "fields": _OF_OPENAI,
            "thinking": "owned",
            "developer_role": True,
            "custom_tools": True,
            "citations": True,
            "cache_settings": frozenset({"key", "retention"}),
        },
        "OpenAI's own server has developer messages, custom tools, annotations, moderation, stored answers and keys of"
        " the prompt cache, and no field for reasoning; its imitators have it the other way round. Aggregators serve"
        " these models too, and take back the reasoning state that they sent (OpenRouter's reasoning_details)",
    ),
    ModelRule(
        BREAKPOINT_MODELS,
        {
            "cache_settings": frozenset({"key", "retention", "options"}),
            "cache_lifetimes": (1800, 43200),
            "cache_breakpoints": 4,
        },
        "cache breakpoints came with GPT-5.6",
    ),
    ModelRule(
        r"claude",
        {"cache_by_control": True, "cache_lifetimes": (300, 3600), "cache_breakpoints": 4},
        "aggregators (OpenRouter, LiteLLM) take cache_control on text parts, and pass it on to Claude",
    ),
    ModelRule(
        r"claude",
        {"property_pattern": r"[a-zA-Z0-9_.-]{1,64}"},
        "Anthropic refuses other names of parameters, also behind an aggregator",
    ),
    *(ModelRule(*row) for row in CACHE_MODELS),
    ModelRule(
        r"(^|/)(gpt-[34]|chatgpt)",
        {"fields": _OF_OPENAI - {"reasoning", "verbosity"}},
        "OpenAI's models before GPT-5 do not reason and refuse reasoning settings",
    ),
    ModelRule(
        r"(^|/)(gpt-([5-9]|\d\d)(?!\S*-chat)|codex-|o[1-9](-|$))",
        {"fields": _OF_OPENAI - SAMPLING},
        "OpenAI's reasoning models refuse sampling parameters",
    ),
    *(ModelRule(*row) for row in SAMPLING_MODELS),
    ModelRule(
        r"(^|/)gpt-(5\.([4-9]|\d\d)|[6-9]|\d\d)",
        {"reasoning_with_tools": False},
        "From GPT-5.4 on, Chat Completions refuses function tools unless reasoning_effort is none (litellm #34569)",
    ),
    ModelRule(
        r"^(deepseek-(chat|reasoner|v[3-9])|kimi-(k2-thinking|k2\.[5-9]|k[3-9]))",
        {"refuses": frozenset({"calls_without_reasoning"})},
        "In thinking mode DeepSeek and Kimi refuse a message with calls that has no reasoning_content; it may be empty",
    ),
    ModelRule(
        r"gemini|qwen\S*(vl|omni)|glm-[\d.]+v|kimi-(k2\.[5-9]|k[3-9])",
        {"media_in_user": CAPABILITIES.media.in_user | {"video"}},
        "servers of these models take video_url (OpenRouter, vLLM, Z.ai, Moonshot)",
    ),
    ModelRule(
        _NOT_GEMINI,
        {"id_state_mark": ""},
        "Gemini's signature in a call id is no state of these models, and OpenAI refuses ids of that length",
    ),
    ModelRule(
        r"(^|/)gemini-([3-9]|\d\d)",
        {"refuses": frozenset({"unsigned_calls"})},
        "Gemini 3 refuses a step whose first call has no signature; Google's server and LiteLLM take a placeholder in"
        " extra_content",
    ),
    ModelRule("", {"efforts": WIDELY_KNOWN}, "most models refuse xhigh and max"),
    *(ModelRule(*row) for row in OPENAI_MODELS),
    ModelRule(
        r"claude-(?:[a-z]+-4[-.](?:[7-9](?!\d)|[1-9]\d(?!\d))|[a-z]+-(?:[5-9]|[1-9]\d)(?!\d)|mythos)",
        {"efforts": (*WIDELY_KNOWN, "xhigh", "max")},
        "proxies pass these efforts on to Claude models since 4.7",
    ),
    ModelRule(
        r"deepseek-v(?:[4-9]|\d\d)",
        {"efforts": (*WIDELY_KNOWN, "max")},
        "DeepSeek V4 has max (vLLM #40982)",
    ),
    ModelRule(
        r"qwen-?3\.[89]",
        {"efforts": ("none", "low", "medium", "xhigh")},
        "the template of Qwen 3.8 refuses minimal, high and max (sglang #36769)",
    ),
    ModelRule(
        r"glm-5[-.](?:[3-9]|\d\d)",
        {"efforts": ("none", "low", "high", "max")},
        "GLM 5.3 has three efforts (mistral-vibe #1117)",
    ),
    *(ModelRule(*row) for row in STRICT_MODELS),
    ModelRule(
        MISTRAL,
        {
            "id_pattern": r"[A-Za-z0-9]{9}",
            "id_length": 9,
            "thinking": "owned",
            "fields": CAPABILITIES.parameters.fields - {"reasoning", "top_k"},
        },
        "Mistral wants call ids of exactly nine letters and digits, and refuses fields that it does not know; it takes"
        " its own `thinking` parts back (examples/mistral/chat/reasoning_multi_turn.py of mistralai/client-python)",
    ),
)
