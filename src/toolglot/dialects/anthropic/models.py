"""What the Messages API can be told, and how Claude's generations differ, as data.

The base record fits the API itself and the servers that imitate it. Names are matched loosely, since resellers put
prefixes, dates and regions around them: `us.anthropic.claude-opus-4-8-v1:0`, `anthropic/claude-opus-4.8`.
"""

from __future__ import annotations

import re

from toolglot.dialect import Capabilities, ModelRule

DEFAULT_MAX_TOKENS = 8192
"""Sent when nobody set a limit, which the wire requires: every model since Claude 3.5 can write that much."""

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
    fields=_FIELDS,
    name_length=128,
    id_length=64,
    tool_choices=frozenset({"auto", "none", "required", "named"}),
    allowed_modes=frozenset(),
    deferred_tools=True,
    arguments="object",
    system="leading",
    roles_alternate=True,
    results_role="user",
    starts_with_user=True,
    empty_text=False,
    media_in_user=frozenset({"image", "document"}),
    media_in_result=frozenset({"image", "document"}),
    source_kinds=frozenset({"base64", "url", "file", "text"}),
    image_types=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    result_errors=True,
    citations=True,
    thinking="owned",
    cache_lifetimes=(300, 3600),
    cache_breakpoints=4,
    cache_on_parts_only=False,
    efforts=("low", "medium", "high", "xhigh", "max"),
    reasoning_budget=True,
    forced_choice_with_reasoning=False,
    response_formats=frozenset({"text", "json_schema"}),
    max_temperature=1.0,
    default_output_tokens=DEFAULT_MAX_TOKENS,
    cosmetic=frozenset({"caller", "context_management", "diagnostics", "eager_input_streaming"}),
)

# A minor version is one or two digits; eight digits are a date. `claude-3-5-sonnet` has its family behind.
_FIVE = r"[a-z]+-(?:[5-9]|[1-9]\d)(?!\d)"
_TEN = r"[1-9]\d(?!\d)"
_SINCE_4 = rf"claude-(?:[a-z]+-4(?!\d)|{_FIVE})"
_SINCE_46 = rf"claude-(?:[a-z]+-4[-.](?:[6-9](?!\d)|{_TEN})|{_FIVE}|mythos)"
_SINCE_47 = rf"claude-(?:[a-z]+-4[-.](?:[7-9](?!\d)|{_TEN})|{_FIVE}|mythos)"
_SINCE_48 = rf"claude-(?:[a-z]+-4[-.](?:[89](?!\d)|{_TEN})|{_FIVE})"
_BEFORE_46 = rf"claude-(?:[123](?!\d)|instant|[a-z]+-4(?!\d)(?![-.](?:[6-9](?!\d)|{_TEN})))"
_CHOOSES_ITSELF = (
    rf"claude-(?:(?:fable|mythos)-5[-.](?:[1-9](?!\d)|{_TEN})"
    rf"|[a-z]+-5[-.](?:[5-9](?!\d)|{_TEN})|[a-z]+-(?:[6-9](?!\d)|{_TEN}))"
)

MODELS = (
    ModelRule(
        _SINCE_4, {"default_output_tokens": _LONGER_MAX_TOKENS}, "models since Claude 4 write at least 32000 tokens"
    ),
    ModelRule(_BEFORE_46, {"efforts": ()}, "models before 4.6 reason by a token budget and refuse an effort"),
    ModelRule(r"claude-opus-4[-.]5(?!\d)", {"efforts": ("low", "medium", "high")}, "Opus 4.5 knows three efforts"),
    ModelRule(r"claude-opus-4[-.]6(?!\d)", {"efforts": ("low", "medium", "high", "max")}, "xhigh came with Opus 4.7"),
    ModelRule(r"claude-sonnet-4[-.]6(?!\d)", {"efforts": ("low", "medium", "high")}, "Sonnet 4.6 knows three efforts"),
    ModelRule(_SINCE_46, {"prefill": False}, "models since 4.6 refuse to go on writing an assistant message"),
    ModelRule(
        _SINCE_47,
        {"fields": _FIELDS - _SAMPLING, "reasoning_budget": False},
        "models after Opus 4.6 refuse sampling parameters and thinking budgets",
    ),
    ModelRule(_SINCE_48, {"system": "anywhere"}, "models since Opus 4.8 take system messages inside the conversation"),
    ModelRule(
        _CHOOSES_ITSELF,
        {"tool_choices": frozenset({"auto", "none"}), "reasoning_off": False},
        "these models refuse a forced tool choice, and thinking cannot be turned off",
    ),
)

_only_budgets = re.compile(_BEFORE_46)
_takes_effort = re.compile(r"claude-opus-4[-.]5(?!\d)")


def reasons_by_budget(model: str) -> bool:
    """Does this model know thinking only with a budget of tokens, not as adaptive?"""
    return _only_budgets.search(model) is not None


def takes_effort(model: str) -> bool:
    return not reasons_by_budget(model) or _takes_effort.search(model) is not None
