"""Capabilities of the Messages API, and the differences between Claude's generations, as data.

The base record applies to the API itself and the servers that imitate it. Names are matched loosely, since resellers
put prefixes, dates and regions around them: `us.anthropic.claude-opus-4-8-v1:0`, `anthropic/claude-opus-4.8`.
"""

from __future__ import annotations

import re

from msgspec import Struct

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
from toolglot.dialects.anthropic.usage import TIERS
from toolglot.wire.claude_models import CACHE_MODELS
from toolglot.wire.efforts import SMALLEST_BUDGET

DEFAULT_MAX_TOKENS = 8192
"""Sent if the request has no limit, because the API requires one. Every model since Claude 3.5 can write that much."""

_LONGER_MAX_TOKENS = 32000  # Opus 4, the least of its generation and the later ones

_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_FIELDS = _SAMPLING | {
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "stop",
    "response_format",
    "reasoning",
    "user",
    "service_tier",
    "cache",
}

CAPABILITIES = Capabilities(
    parameters=ParameterCapabilities(
        fields=_FIELDS,
        response_formats=frozenset({"text", "json_schema"}),
    ),
    limits=RequestLimits(
        max_temperature=1.0,
        default_output_tokens=DEFAULT_MAX_TOKENS,
    ),
    names=ToolNameRules(max_length=128),
    ids=CallIdRules(
        max_length=64,
        # Claude Code treats the result of `a_1` as a part of the result of `a`: it loses the result, and the model
        # calls again.
        numbered_parts=True,
    ),
    tools=ToolCapabilities(
        choices=frozenset({"auto", "none", "required", "named"}),
        allowed_modes=frozenset(),
        deferred=True,
        # "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'": the API checks those at the root.
        property_pattern=r"[a-zA-Z0-9_.-]{1,64}",
    ),
    calls=CallCapabilities(
        arguments="object",
        broken="refused",
        results_role="user",
        result_errors=True,
    ),
    messages=MessageCapabilities(
        system="leading",
        roles_alternate=True,
        starts_with_user=True,
        empty_text=False,
        citations=True,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "document"}),
        in_result=frozenset({"image", "document"}),
        source_kinds=frozenset({"base64", "url", "file", "text"}),
        image_types=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
        document_types=frozenset({"application/pdf", "text/*"}),
        context=True,
        url_schemes=frozenset({"https"}),
    ),
    cache=CacheCapabilities(
        lifetimes=(300, 3600),
        breakpoints=4,
        on_parts_only=False,
    ),
    reasoning=ReasoningCapabilities(
        in_history="owned",
        efforts=("low", "medium", "high", "xhigh", "max"),
        budget=True,
        min_budget=SMALLEST_BUDGET,
        with_forced_choice=False,
    ),
    answers=AnswerCapabilities(
        tiers=frozenset(TIERS.values()),
        stop_details=frozenset({"refusal", "filtered"}),
    ),
    receipt=ReceiptRules(
        informational=frozenset({"amazon-bedrock-invocationMetrics", "context_management", "diagnostics"}),
        containers=frozenset({"$message_stop"}),
        assumed={
            "caller": ({"type": "direct"},),
            # Nothing is cleared away. Claude Code sends this with every request.
            "context_management": ({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, {"edits": []}, {}),
        },
        noted={
            "caller": "who made the call; the call itself is carried",
            "source": "data next to the texts of this document is dropped; the texts are kept",
            "diagnostics": "it is for the vendor's own records; no answer depends on it",
            "eager_input_streaming": "it affects when the pieces of a call's arguments arrive, not their content",
        },
        reasoning_members=frozenset({"signature", "data"}),
        cosmetic={
            "anthropic_beta": "it belongs to the transport: it selects the upstream's API",
            "anthropic_version": "it belongs to the transport: it selects the upstream's API",
            "service_tier": "the tier of an answer has its own field",
        },
    ),
)

# A minor version has one or two digits; eight digits are a date. `claude-3-5-sonnet` has its family after the version.
_FIVE = r"[a-z]+-(?:[5-9]|[1-9]\d)(?!\d)"
_TEN = r"[1-9]\d(?!\d)"
_SINCE_4 = rf"claude-(?:[a-z]+-4(?!\d)|{_FIVE})"
_SINCE_46 = rf"claude-(?:[a-z]+-4[-.](?:[6-9](?!\d)|{_TEN})|{_FIVE}|mythos)"
_SINCE_47 = rf"claude-(?:[a-z]+-4[-.](?:[7-9](?!\d)|{_TEN})|{_FIVE}|mythos)"
# Not the Sonnet and Haiku families, which have no system messages inside the conversation (aiquila #413).
_SINCE_OPUS_48 = rf"claude-(?:opus-4[-.](?:[89](?!\d)|{_TEN})|(?:opus|fable|mythos)-(?:[5-9]|[1-9]\d)(?!\d))"
_BEFORE_45 = rf"claude-(?:[123](?!\d)|instant|[a-z]+-4(?!\d)(?![-.](?:[5-9](?!\d)|{_TEN})))"
_BEFORE_46 = rf"claude-(?:[123](?!\d)|instant|[a-z]+-4(?!\d)(?![-.](?:[6-9](?!\d)|{_TEN})))"
_CHOOSES_ITSELF = (
    rf"claude-(?:(?:fable|mythos)-5[-.](?:[1-9](?!\d)|{_TEN})"
    rf"|[a-z]+-5[-.](?:[5-9](?!\d)|{_TEN})|[a-z]+-(?:[6-9](?!\d)|{_TEN}))"
)

_REFUSED = frozenset({"blank_stop", "spaces_at_the_end"})

MODELS = (
    ModelRule(
        r"claude-(?:[12](?!\d)|instant|3-(?:5-)?(?:opus|sonnet|haiku))",
        {"fields": _FIELDS - {"reasoning"}},
        "thinking came with Claude 3.7",
    ),
    ModelRule(
        r"claude", {"refuses": _REFUSED}, "stop sequences of spaces, and answers to go on with that end in spaces: 400"
    ),
    *(ModelRule(*row) for row in CACHE_MODELS),
    ModelRule(
        r"claude-(?:opus-4[-.]1(?!\d)|[a-z]+-4[-.][56](?!\d))",
        {"refuses": _REFUSED | {"temperature_with_top_p"}},
        "these models take a temperature or a top_p",
    ),
    ModelRule(
        _BEFORE_45,
        {"response_formats": frozenset({"text"}), "strict_tools": False},
        "structured output and strict tools came with 4.5",
    ),
    ModelRule(_SINCE_4, {"default_output_tokens": _LONGER_MAX_TOKENS}, "models since Claude 4 can write 32000 tokens"),
    ModelRule(
        _BEFORE_46,
        {"efforts": (), "reasons_by_budget": True},
        "models before 4.6 reason by a token budget and refuse an effort",
    ),
    ModelRule(r"claude-opus-4[-.]5(?!\d)", {"efforts": ("low", "medium", "high")}, "Opus 4.5 knows three efforts"),
    ModelRule(r"claude-opus-4[-.]6(?!\d)", {"efforts": ("low", "medium", "high", "max")}, "xhigh came with Opus 4.7"),
    ModelRule(r"claude-sonnet-4[-.]6(?!\d)", {"efforts": ("low", "medium", "high")}, "Sonnet 4.6 knows three efforts"),
    ModelRule(_SINCE_46, {"prefill": False}, "models since 4.6 refuse to go on writing an assistant message"),
    ModelRule(
        _SINCE_47,
        {"fields": _FIELDS - _SAMPLING, "reasoning_budget": False},
        "models after Opus 4.6 refuse sampling parameters and thinking budgets",
    ),
    ModelRule(
        _SINCE_OPUS_48,
        {"system": "after_user"},
        "models since Opus 4.8 take system messages inside the conversation, each after a user's turn",
    ),
    ModelRule(
        _CHOOSES_ITSELF,
        {"tool_choices": frozenset({"auto", "none"}), "reasoning_off": False},
        "these models refuse a forced tool choice, and thinking cannot be turned off",
    ),
)


class ApiVersion(Struct, frozen=True):
    """Features that a version of the API no longer accepts: request fields (`without`), and content that a pass removes
    (`refuses`)."""

    without: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()


VERSIONS: dict[str, ApiVersion] = {
    "2023-06-01": ApiVersion(),
    "2026-10-21": ApiVersion(without=_SAMPLING, refuses=frozenset({"assistant_documents", "user_citations"})),
}
"""The values of the header `anthropic-version`. All use the same body format; a later version refuses parts of it."""


def version_of(name: str) -> ApiVersion:
    """Return the version of this date, or the latest one before it."""
    return VERSIONS[max((known for known in VERSIONS if known <= name), default=min(VERSIONS))]


_budget_only_models = re.compile(_BEFORE_46)
_effort_models = re.compile(r"claude-opus-4[-.]5(?!\d)")
_adaptive_models = re.compile(_SINCE_46)
_hidden_thinking_models = re.compile(_SINCE_47)


def reasons_by_budget(model: str) -> bool:
    """Return whether this model thinks only with a token budget, not adaptively."""
    return _budget_only_models.search(model) is not None


def takes_effort(model: str) -> bool:
    return not reasons_by_budget(model) or _effort_models.search(model) is not None


def is_adaptive(model: str) -> bool:
    """Return whether this model is known to support adaptive thinking."""
    return _adaptive_models.search(model) is not None


def shows_thinking(model: str) -> bool:
    """Return whether this model shows its thinking by default. Models after 4.6 omit it."""
    return _hidden_thinking_models.search(model) is None
