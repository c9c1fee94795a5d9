"""Reasoning efforts and the thinking budgets in tokens that correspond to them."""

from __future__ import annotations

from collections.abc import Mapping

from toolglot.ir import Reasoning

SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All efforts of all APIs, from least to most."""

BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 65536}
"""Thinking tokens for an effort. Google documents low, medium and high for its OpenAI-compatible endpoint; the two
above continue the series. In the other direction, a budget maps to the first effort that is not below it."""

WIDELY_KNOWN = ("none", "minimal", "low", "medium", "high")
"""Efforts sent to servers of OpenAI's APIs with an unknown model. Most servers refuse the two above."""

_LOW_TO_HIGH = ("low", "medium", "high")

OPENAI_MODELS: tuple[tuple[str, Mapping[str, object], str], ...] = (
    (
        r"(^|/)(o[1-9](-|$)|codex-)",
        {"efforts": _LOW_TO_HIGH, "reasoning_off": False},
        "o-series models have three efforts and always reason",
    ),
    (
        r"(^|/)gpt-5(?!\.|\S*-chat)",
        {"efforts": ("minimal", *_LOW_TO_HIGH), "reasoning_off": False},
        "GPT-5 has minimal instead of none; xhigh came with GPT-5.1-Codex-Max",
    ),
    (r"(^|/)gpt-5\.1(?!\d)", {"efforts": ("none", *_LOW_TO_HIGH)}, "from GPT-5.1 on there is none and no minimal"),
    (r"(^|/)gpt-5\.[2-5](?!\d)", {"efforts": ("none", *_LOW_TO_HIGH, "xhigh")}, "xhigh came with GPT-5.2"),
    (
        r"(^|/)gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)",
        {"efforts": ("none", *_LOW_TO_HIGH, "xhigh", "max")},
        "max came with GPT-5.6",
    ),
    (
        r"(^|/)gpt-5(\.1)?-codex",
        {"efforts": _LOW_TO_HIGH, "reasoning_off": False},
        "Codex models always reason, and have no minimal",
    ),
    (
        r"(^|/)gpt-5\.(1-codex-max|[2-5]-codex)",
        {"efforts": (*_LOW_TO_HIGH, "xhigh"), "reasoning_off": False},
        "xhigh came with GPT-5.1-Codex-Max",
    ),
    (r"(^|/)gpt-5-pro", {"efforts": ("high",), "reasoning_off": False}, "GPT-5 Pro has one effort"),
    (
        r"(^|/)gpt-5\.[2-5]-pro",
        {"efforts": ("medium", "high", "xhigh"), "reasoning_off": False},
        "the Pro models have no low efforts",
    ),
    (r"(^|/)gpt-oss", {"efforts": _LOW_TO_HIGH, "reasoning_off": False}, "gpt-oss always reasons, with three efforts"),
)
"""The efforts of OpenAI's models in both APIs: a pattern of names, the differing capabilities, the reason. Later rows
win. From OpenAI's reference, and from refusals that users quote ("Supported values are: ...")."""

SMALLEST_BUDGET = 1024


def effort_to_budget(effort: str, limit: int, reserved: int | None = None) -> int:
    """Thinking tokens for an effort under this output limit.

    Thinking counts towards the limit, so the answer gets a part of it: `reserved` tokens, or half of the limit.
    """
    room = limit - (limit // 2 if reserved is None else reserved)
    return max(SMALLEST_BUDGET, min(BUDGETS[effort], room))


def budget_to_effort(budget: int) -> str:
    """Return the first effort that is not below this budget."""
    return next((effort for effort in SCALE[2:] if budget <= BUDGETS[effort]), SCALE[-1])


def has_no_amount(reasoning: Reasoning) -> bool:
    """Return whether reasoning is turned on without an effort or a budget."""
    return reasoning.mode == "on" and reasoning.effort is None and reasoning.budget_tokens is None
