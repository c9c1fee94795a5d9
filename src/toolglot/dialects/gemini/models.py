"""Capabilities of Gemini, and the differences between single models."""

from __future__ import annotations

from typing import get_args

from toolglot.dialect import Capabilities, ModelRule
from toolglot.dialects.gemini.usage import TIERS
from toolglot.ir import StopReason

CAPABILITIES = Capabilities(
    # Without `candidateCount`: only one of several answers would come back. Without `store`: Vertex refuses it.
    fields=frozenset(
        {
            "tool_choice",
            "max_output_tokens",
            "temperature",
            "top_p",
            "top_k",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "stop",
            "logprobs",
            "top_logprobs",
            "response_format",
            "reasoning",
            "metadata",
            "service_tier",
        }
    ),
    name_pattern=r"[A-Za-z0-9_.:-]+",
    name_start=r"[A-Za-z_]",
    name_length=128,
    # Ids are optional and free in form, but an id must come back unchanged. The narrow form is safe with every client.
    ids_required=False,
    strict_tools=False,
    schema="any",
    arguments="object",
    broken_calls="shown",
    incomplete_calls=True,
    malformed_call_stop=True,
    system="leading",
    roles_alternate=True,
    results_role="user",
    # "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
    starts_with_user=True,
    media_in_user=frozenset({"image", "document", "audio", "video"}),
    media_in_result=frozenset({"image", "document", "audio", "video"}),
    media_in_assistant=frozenset({"image", "audio"}),
    # `fileUri` takes files that Google hosts and any public or signed HTTPS URL, which the API fetches (Google's post
    # "Increased file size limits and expanded inputs support in Gemini API"). Plain text goes as inline data.
    source_kinds=frozenset({"base64", "url", "file", "text"}),
    result_errors=True,
    thinking="owned",
    efforts=("minimal", "low", "medium", "high"),
    reasoning_budget=True,
    max_stop_sequences=5,
    containers=frozenset(
        {
            "candidate",
            "content",
            "functionCall",
            "functionCallingConfig",
            "functionResponse",
            "generationConfig",
            "thinkingConfig",
            "toolConfig",
        }
    ),
    answer_paths={"candidate": "candidates[0]", "otherCandidates": "candidates[1]"},
    further_answers="otherCandidates",
    answer_tiers=frozenset(TIERS.values()),
    stop_details=frozenset(get_args(StopReason)),
    informational=frozenset({"avgLogprobs", "safetyRatings"}),
    assumed={"responseModalities": (["TEXT"], ["Text"], ["text"])},
    rough_stops={"context_full": "MAX_TOKENS", "pause": "TOO_MANY_TOOL_CALLS"},
    reasoning_members=frozenset({"thought", "thoughtSignature"}),
    cosmetic={
        "model": "the URL names the model",
        "role": "the message tells who speaks",
        "thought": "the kind of the part tells it",
        "index": "the place among the candidates",
        "createTime": "when an answer was made",
        "avgLogprobs": "a figure about an answer",
        "safetyRatings": "a figure about an answer",
        "promptTokenCount": "the usage tells it",
        "candidatesTokenCount": "the usage tells it",
        "totalTokenCount": "the usage tells it",
        "cachedContentTokenCount": "the usage tells it",
        "thoughtsTokenCount": "the usage tells it",
        "toolUsePromptTokenCount": "the usage tells it",
        "promptTokensDetails": "the usage tells it",
        "cacheTokensDetails": "the usage tells it",
        "candidatesTokensDetails": "the usage tells it",
        "toolUsePromptTokensDetails": "the usage tells it",
        "trafficType": "how an answer was paid for",
    },
)

MODELS = (
    ModelRule(
        r"gemini-[12]\b",
        {"efforts": (), "media_in_result": frozenset(), "format_with_tools": False},
        "thinkingLevel, media inside a functionResponse, and JSON answers beside tools came with Gemini 3",
    ),
    ModelRule(
        r"gemini-(2\.5|[3-9][^/]*)-pro",
        {"reasoning_off": False},
        "the Pro models always think",
    ),
    ModelRule(
        r"gemini-[3-9][^/]*-pro|gemini-3\.[78]-flash(?!-lite)",
        {"efforts": ("low", "medium", "high")},
        '"Thinking level MINIMAL is not supported for this model"',
    ),
    ModelRule(r"gemini-2\.5-flash", {"max_budget": 24576}, "thinkingBudget is at most 24576"),
    ModelRule(r"gemini-2\.5-pro", {"max_budget": 32768}, "thinkingBudget is at most 32768"),
)
