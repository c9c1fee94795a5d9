"""How many tokens of thinking an effort stands for, where a wire wants tokens."""

from __future__ import annotations

SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All efforts that any API knows, from least to most."""

BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 65536}
"""Thinking tokens for an effort. Google documents low, medium and high for its OpenAI-compatible endpoint; the two
above go on in the same way. The other way, a budget is the first effort that is not below it."""

SMALLEST_BUDGET = 1024


def budget_of(effort: str, limit: int, kept: int | None = None) -> int:
    """Tokens for an effort under this output limit.

    Thinking counts towards the limit, so a part of that stays for the answer: half of it where nothing else is said.
    """
    room = limit - (limit // 2 if kept is None else kept)
    return max(SMALLEST_BUDGET, min(BUDGETS[effort], room))


def effort_of(budget: int) -> str:
    """The first effort that is not below this budget."""
    return next((effort for effort in SCALE[2:] if budget <= BUDGETS[effort]), SCALE[-1])
