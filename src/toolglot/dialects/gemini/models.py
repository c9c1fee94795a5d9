"""Capabilities of Gemini, and the differences between single models."""

from __future__ import annotations

from typing import get_args

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
from toolglot.dialects.gemini.usage import TIERS
from toolglot.ir import StopReason

CAPABILITIES = Capabilities(
    parameters=ParameterCapabilities(
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
    ),
    limits=RequestLimits(max_stop_sequences=5),
    names=ToolNameRules(
        pattern=r"[A-Za-z0-9_.:-]+",
        start=r"[A-Za-z_]",
        max_length=128,
    ),
    ids=CallIdRules(
        # Ids are optional and free in form, but an id must come back unchanged. The narrow form is safe with every
        # client.
        required=False,
    ),
    tools=ToolCapabilities(
        strict=False,
        # "functionDeclaration parameters schema should be of type OBJECT"; combinations at the root are refused, too.
        schema="object",
        parameters_optional=True,
    ),
    calls=CallCapabilities(
        arguments="object",
        broken="shown",
        incomplete=True,
        results_role="user",
        result_errors=True,
    ),
    messages=MessageCapabilities(
        system="leading",
        roles_alternate=True,
        # "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
        starts_with_user=True,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "document", "audio", "video"}),
        in_result=frozenset({"image", "document", "audio", "video"}),
        in_assistant=frozenset({"image", "audio"}),
        # `fileUri` takes files that Google hosts and any public or signed HTTPS URL, which the API fetches (Google's
        # post "Increased file size limits and expanded inputs support in Gemini API"). Plain text goes as inline data.
        source_kinds=frozenset({"base64", "url", "file", "text"}),
    ),
    reasoning=ReasoningCapabilities(
        in_history="owned",
        efforts=("minimal", "low", "medium", "high"),
        budget=True,
    ),
    answers=AnswerCapabilities(
        malformed_call_stop=True,
        tiers=frozenset(TIERS.values()),
        stop_details=frozenset(get_args(StopReason)),
        rough_stops={"context_full": "MAX_TOKENS", "pause": "TOO_MANY_TOOL_CALLS"},
    ),
    receipt=ReceiptRules(
        containers=frozenset(
            {
                "candidate",
                "content",
                "functionCall",
                "functionCallingConfig",
                "functionResponse",
                "generationConfig",
                "groundingMetadata",
                "thinkingConfig",
                "toolConfig",
            }
        ),
        answer_paths={"candidate": "candidates[0]", "otherCandidates": "candidates[1]"},
        further_answers="otherCandidates",
        informational=frozenset({"avgLogprobs", "confidenceScores", "safetyRatings", "webSearchQueries"}),
        assumed={"responseModalities": (["TEXT"], ["Text"], ["text"])},
        reasoning_members=frozenset({"thought", "thoughtSignature"}),
        cosmetic={
            "model": "the URL names the model",
            "role": "the message's role says it",
            "thought": "the kind of the part implies it",
            "index": "the place among the candidates",
            "createTime": "when an answer was made",
            "traceId": "where an answer was made",
            "avgLogprobs": "a figure about an answer",
            "safetyRatings": "a figure about an answer",
            "promptTokenCount": "the usage reports it",
            "candidatesTokenCount": "the usage reports it",
            "totalTokenCount": "the usage reports it",
            "cachedContentTokenCount": "the usage reports it",
            "thoughtsTokenCount": "the usage reports it",
            "toolUsePromptTokenCount": "the usage reports it",
            "promptTokensDetails": "the usage reports it",
            "cacheTokensDetails": "the usage reports it",
            "candidatesTokensDetails": "the usage reports it",
            "toolUsePromptTokensDetails": "the usage reports it",
            "trafficType": "how an answer was paid for",
        },
    ),
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
