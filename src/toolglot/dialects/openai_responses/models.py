"""Capabilities of the Responses API, and differences between models."""

from __future__ import annotations

from toolglot.capabilities import (
    AnswerCapabilities,
    CacheCapabilities,
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
from toolglot.wire.efforts import OPENAI_MODELS, SCALE, WIDELY_KNOWN
from toolglot.wire.openai_fields import BREAKPOINT_MODELS, SAMPLING_MODELS
from toolglot.wire.strict_models import STRICT_MODELS

CAPABILITIES = Capabilities(
    parameters=ParameterCapabilities(
        fields=frozenset(
            {
                "tool_choice",
                "parallel_tool_calls",
                "max_output_tokens",
                "temperature",
                "top_p",
                "logprobs",
                "top_logprobs",
                "response_format",
                "reasoning",
                "verbosity",
                "user",
                "legacy_user",
                "metadata",
                "service_tier",
                "store",
                "moderation",
            }
        ),
    ),
    limits=RequestLimits(
        max_stop_sequences=0,
        min_output_tokens=16,
    ),
    names=ToolNameRules(max_length=128),
    ids=CallIdRules(max_length=64),
    tools=ToolCapabilities(
        custom=True,
        namespaces=True,
        deferred=True,
        strict_all_required=True,
        schema="object",
        parameters_optional=True,
        max_count=128,
        array_items=True,
    ),
    calls=CallCapabilities(
        arguments="text",
        broken="as_text",
        incomplete=True,
        in_one_message=False,
        results_role="tool",
    ),
    messages=MessageCapabilities(
        system="anywhere",
        developer_role=True,
        citations=True,
        refusals=True,
        needs_message=True,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "document"}),
        in_result=frozenset({"image", "document"}),
        file_store="openai",
    ),
    cache=CacheCapabilities(settings=frozenset({"key", "retention"})),
    reasoning=ReasoningCapabilities(
        in_history="owned",
        efforts=SCALE,
    ),
    answers=AnswerCapabilities(
        tiers=frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
        rough_stops={"context_full": "max_output_tokens"},
    ),
    receipt=ReceiptRules(
        informational=frozenset({"phase"}),
        containers=frozenset({"$item", "stream_options"}),
        request_paths={"$item": ""},
        answer_paths={"$item": ""},
        assumed={
            "background": (False,),
            "context": ("auto",),
            # Reasoning state of other models goes to the client in the same place.
            "include": (["reasoning.encrypted_content"],),
            "truncation": ("disabled",),
        },
        noted={
            "client_metadata": "it is for the vendor's own records; no answer depends on it",
            "include_obfuscation": "toolglot writes the client's stream, and pads nothing",
            "context": "the target decides which earlier reasoning it reads",
            "namespace": "the call that it answers names its namespace",
            "phase": "only its own models read this label; the text is kept",
        },
        reasoning_members=frozenset({"summary", "content", "encrypted_content"}),
        cosmetic={
            "additional_tools": "the item's tools are among the request's tools",
            "billing": "who paid for an answer",
            "completed_at": "when an answer was made",
            "created_at": "when an answer was made",
            "error": "a failed answer becomes an error",
            "id": "the name of an item or an answer in its own API's store",
            "incomplete_details": "the stop reason says the same",
            "object": "the type of the document, which each API names differently",
            "parsed": "an SDK derived it from the text next to it",
            "parsed_arguments": "an SDK derived it from the arguments next to it",
            "status": "the item's content shows its state",
            "tool_search_output": "the item's tools are among the request's tools",
        },
    ),
)

_OPEN_MODELS = (
    "codestral|deepseek|devstral|gemma|glm|gpt-oss|hermes|kimi|llama|magistral|minimax|ministral|mistral|nemotron"
    "|phi|qwen"
)

MODELS = (
    ModelRule(
        rf"(?i)(^|[/.-])({_OPEN_MODELS})",
        {"custom_tools": False},
        "servers of open models have functions only: vLLM leaves custom tools out (#56285), others call functions",
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
        r"(^|/)(gpt-[34]|chatgpt)",
        {"fields": CAPABILITIES.parameters.fields - {"reasoning", "verbosity"}},
        "OpenAI's models before GPT-5 do not reason and refuse reasoning settings",
    ),
    ModelRule(
        r"(^|/)(gpt-([5-9]|\d\d)(?!\S*-chat)|codex-|o[1-9](-|$))",
        {"fields": CAPABILITIES.parameters.fields - {"temperature", "top_p", "logprobs", "top_logprobs"}},
        "OpenAI's reasoning models refuse sampling parameters",
    ),
    *(ModelRule(*row) for row in SAMPLING_MODELS),
    ModelRule("", {"efforts": WIDELY_KNOWN}, "most models refuse xhigh and max"),
    *(ModelRule(*row) for row in OPENAI_MODELS),
    *(ModelRule(*row) for row in STRICT_MODELS),
)
