"""Capabilities of the Responses API, and how single models differ."""

from __future__ import annotations

from toolglot.dialect import Capabilities, ModelRule
from toolglot.wire.efforts import OPENAI_MODELS, SCALE, WIDELY_KNOWN
from toolglot.wire.openai_fields import BREAKPOINT_MODELS, SAMPLING_MODELS

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
            "legacy_user",
            "metadata",
            "service_tier",
            "store",
            "moderation",
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
    incomplete_calls=True,
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
    answer_tiers=frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
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
        "context": "the target decides itself which earlier reasoning it reads",
        "namespace": "the call that it answers names its namespace",
        "phase": "only its own models read this label; the words are carried",
    },
    rough_stops={"context_full": "max_output_tokens"},
    reasoning_members=frozenset({"summary", "content", "encrypted_content"}),
    cosmetic={
        "additional_tools": "the tools that the item brings stand among the tools",
        "billing": "who paid for an answer",
        "completed_at": "when an answer was made",
        "created_at": "when an answer was made",
        "error": "a failed answer is told as an error",
        "id": "the name of an item or an answer in its own API's store",
        "incomplete_details": "the reason for the end tells the same",
        "object": "the type of the document, which each API has its own word for",
        "parsed": "what an SDK has made of the text beside it",
        "parsed_arguments": "what an SDK has made of the arguments beside it",
        "status": "the state of an item shows in what is there of it",
        "tool_search_output": "the tools that the item brings stand among the tools",
    },
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
    *(ModelRule(*row) for row in SAMPLING_MODELS),
    ModelRule("", {"efforts": WIDELY_KNOWN}, "most models refuse xhigh and max"),
    *(ModelRule(*row) for row in OPENAI_MODELS),
)
