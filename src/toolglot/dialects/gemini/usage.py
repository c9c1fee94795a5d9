"""`usageMetadata` <-> `Usage`.

The counts are cut differently here: tokens of tool use are beside the prompt's, and those of thoughts beside the
answer's. The object that came is kept whole, and written again while it still says the same.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Usage
from toolglot.wire.reader import Reader

TIERS = {
    "ON_DEMAND": "default",
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
    "PROVISIONED_THROUGHPUT": "scale",
}
"""The types of traffic that are service tiers, in OpenAI's words."""
_TIER_NAMES = {tier: name for name, tier in TIERS.items()}


def tier_of(usage: Usage | None) -> str | None:
    """The tier that served the request. It also stays with the usage, for this dialect."""
    traffic = usage.native.get(NAME, {}).get("trafficType") if usage is not None else None
    return TIERS.get(traffic, traffic) if isinstance(traffic, str) else None


def decode_usage(value: Any, where: str) -> Usage:
    counts = Reader(dict(value) if isinstance(value, dict) else value, where)
    prompt, tools = counts.integer("promptTokenCount") or 0, counts.integer("toolUsePromptTokenCount") or 0
    answer, thoughts = counts.integer("candidatesTokenCount") or 0, counts.integer("thoughtsTokenCount") or 0
    return Usage(
        input_tokens=prompt + tools,
        output_tokens=answer + thoughts,
        cached_tokens=counts.integer("cachedContentTokenCount") or 0,
        reasoning_tokens=thoughts,
        native={NAME: value},
    )


def encode_usage(usage: Usage | None, tier: str | None = None) -> dict[str, Any]:
    traffic = {} if tier is None else {"trafficType": _TIER_NAMES.get(tier, tier)}
    if usage is None:
        return {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0, **traffic}
    original = usage.native.get(NAME)
    if original is not None and _same_counts(decode_usage(dict(original), ""), usage):
        return dict(original)
    counts: dict[str, Any] = {"promptTokenCount": usage.input_tokens}
    if usage.cached_tokens:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    counts["candidatesTokenCount"] = max(usage.output_tokens - usage.reasoning_tokens, 0)
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    counts["totalTokenCount"] = usage.input_tokens + usage.output_tokens
    return {**counts, **traffic}


def _same_counts(first: Usage, second: Usage) -> bool:
    return (
        first.input_tokens == second.input_tokens
        and first.output_tokens == second.output_tokens
        and first.cached_tokens == second.cached_tokens
        and first.reasoning_tokens == second.reasoning_tokens
    )
