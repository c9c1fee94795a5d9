"""What the Responses API can express, and in what single models differ."""

from __future__ import annotations

from toolglot.dialect import Capabilities, ModelRule
from toolglot.wire.efforts import OPENAI_MODELS, SCALE, WIDELY_KNOWN
from toolglot.wire.openai_fields import BREAKPOINT_MODELS

CAPABILITIES = Capabilities(
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
            "metadata",
            "service_tier",
        }
    ),
    name_length=128,
    id_length=64,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    strict_all_required=True,
    schema="object",
    parameters_optional=True,
    arguments="text",
    broken_calls="as_text",
    system="anywhere",
    developer_role=True,
    calls_in_one_message=False,
    results_role="tool",
    media_in_user=frozenset({"image", "document"}),
    media_in_result=frozenset({"image", "document"}),
    citations=True,
    thinking="owned",
    refusals=True,
    cache_settings=frozenset({"key", "retention"}),
    efforts=SCALE,
    max_stop_sequences=0,
    min_output_tokens=16,
    needs_message=True,
    max_tools=128,
    # Identities and states of items and responses, hints that only this API's servers act on, and what stands beside a
    # field of the IR that says the same (`summary` and `content` of reasoning are its text).
    answer_tiers=frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
    containers=frozenset({"$item"}),
    informational=frozenset({"phase"}),
    cosmetic=frozenset(
        {
            "additional_tools",
            "billing",
            "client_metadata",
            "completed_at",
            "content",
            "context",
            "created_at",
            "error",
            "id",
            "include",
            "incomplete_details",
            "namespace",
            "object",
            "parsed",
            "parsed_arguments",
            "phase",
            "status",
            "store",
            "stream_options",
            "summary",
            "tool_search_output",
            "truncation",
        }
    ),
)

MODELS = (
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
        {"fields": CAPABILITIES.fields - {"reasoning", "verbosity"}},
        "OpenAI's models before GPT-5 do not reason and refuse to be asked for it",
    ),
    ModelRule(
        r"(^|/)(gpt-([5-9]|\d\d)(?!\S*-chat)|codex-|o[1-9](-|$))",
        {"fields": CAPABILITIES.fields - {"temperature", "top_p", "logprobs", "top_logprobs"}},
        "OpenAI's reasoning models refuse sampling parameters",
    ),
    ModelRule("", {"efforts": WIDELY_KNOWN}, "most models refuse xhigh and max"),
    *(ModelRule(*row) for row in OPENAI_MODELS),
)
