"""`usageMetadata` <-> `Usage`.

This API counts tokens of tool use separately from the prompt, and tokens of thoughts separately from the answer. The
original object is kept, and written again if the counts are still the same.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.names import USAGE, normalize
from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Usage, sum_counts
from toolglot.wire import json
from toolglot.wire.usage import (
    ORIGINAL,
    CountNames,
    UsageReader,
    original_usage,
    read_plain,
    unchanged_original,
    with_original,
)

_MOST_SHAPES = 16
"""The limit for reports with different members that are held before they are merged."""

_BY_MODALITY = ("promptTokensDetails", "cacheTokensDetails", "candidatesTokensDetails", "toolUsePromptTokensDetails")

TIERS = {
    "ON_DEMAND": "default",
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
    "PROVISIONED_THROUGHPUT": "scale",
}
"""Types of traffic -> service tiers, under OpenAI's names."""
_TIER_NAMES = {tier: name for name, tier in TIERS.items()}


def tier_of(usage: Usage | None) -> str | None:
    """Return the service tier of the answer. The original usage also keeps it, for this dialect."""
    traffic = original_usage(usage, NAME).get("trafficType")
    return TIERS.get(traffic, traffic) if isinstance(traffic, str) else None


_COUNTS = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
    "totalTokenCount",
)
_PLAIN: CountNames = {**{name: name for name in _COUNTS}, **dict.fromkeys(USAGE.spelling)}


def decode_usage(value: Any, where: str = "$.usageMetadata") -> Usage:
    found = read_plain(value, _PLAIN)
    if found is None:
        value = normalize(value, USAGE, where)
        reader = UsageReader(value, where)
        prompt, tools, answer, thoughts, cached, total = [reader.count((name,)) for name in _COUNTS]
        rest = reader.rest()
    else:
        plain, rest = found
        prompt, tools, answer, thoughts, cached, total = map(plain.get, _COUNTS)
    if rest:
        for name in _BY_MODALITY:
            if _is_all_text(rest.get(name)):
                del rest[name]
        if isinstance(rest.get("trafficType"), str):
            del rest["trafficType"]  # it is in the response's `service_tier`
    if tools:  # part of the input, which other APIs do not count apart
        rest["toolUsePromptTokenCount"] = tools
    if prompt is None or answer is None:
        prompt, answer = _complete_from_total(prompt, answer, (tools or 0) + (thoughts or 0), total)
    tokens = prompt if tools is None else sum_counts(prompt, tools)
    output = answer if thoughts is None else sum_counts(answer, thoughts)
    if total and total != (tokens or 0) + (output or 0):
        rest["totalTokenCount"] = total
    return Usage(
        input_tokens=tokens,
        output_tokens=output,
        cached_tokens=cached,
        reasoning_tokens=thoughts,
        native=with_original(NAME, value, rest) if rest else {NAME: {ORIGINAL: value}},
    )


class UsageReports:
    """Collects the usage of all frames of a stream. Counts are cumulative, and the last value of each wins; servers may
    omit members of earlier frames. Most frames have the same members with other counts: only the last of those is
    decoded, so a frame costs no decoding."""

    __slots__ = ("_by_shape", "_read", "has_unreadable")

    def __init__(self) -> None:
        self._by_shape: dict[bytes, bytes] = {}
        self._read: Any = None
        self.has_unreadable = False
        """True if a report was not an object."""

    def add(self, report: Any) -> None:
        """Add one `usageMetadata`, as JSON text or as a value."""
        if type(report) is not bytes:
            self._merge(report)
        elif report:
            shape = report.translate(None, b"0123456789")
            self._by_shape.pop(shape, None)  # reports are merged in the order of their last arrival
            self._by_shape[shape] = report
            if len(self._by_shape) > _MOST_SHAPES:
                self._merge()

    def _merge(self, *later: Any) -> None:
        held = [json.decode_frame(text) for text in self._by_shape.values()]
        self._by_shape.clear()
        for value in (*held, *later):
            if isinstance(value, dict):
                self._read = {**(self._read or {}), **value}
            elif value is not None:
                self.has_unreadable = True

    def merged(self) -> Usage | None:
        self._merge()
        return decode_usage(self._read) if self._read is not None else None


def _complete_from_total(
    prompt: int | None, answer: int | None, others: int, total: int | None
) -> tuple[int | None, int | None]:
    """Derive a missing count of prompt or answer from the total. Google omits zeros."""
    if total is None or (prompt is None) == (answer is None):
        return prompt, answer
    missing = total - others - (prompt or 0) - (answer or 0)
    if missing < 0:
        return prompt, answer
    return (missing, answer) if prompt is None else (prompt, missing)


def _is_all_text(counts: Any) -> bool:
    """Return whether these counts by modality count only text, and so repeat the total."""
    return isinstance(counts, list) and all(
        isinstance(count, dict) and (count.get("modality") == "TEXT" or not count.get("tokenCount")) for count in counts
    )


def encode_usage(usage: Usage | None, tier: str | None = None) -> dict[str, Any]:
    """Encode only the counts that were reported: clients do not need the others, and a zero would be a count."""
    traffic: dict[str, Any] = {} if tier is None else {"trafficType": _TIER_NAMES.get(tier, tier)}
    if usage is None:
        return traffic
    if NAME in usage.native and (came := unchanged_original(usage, NAME, decode_usage)) is not None:
        return came
    tokens, output = usage.input_tokens, usage.output_tokens
    counts: dict[str, int | None] = {
        "promptTokenCount": tokens,
        "cachedContentTokenCount": usage.cached_tokens or None,
        "candidatesTokenCount": None if output is None else max(output - (usage.reasoning_tokens or 0), 0),
        "thoughtsTokenCount": usage.reasoning_tokens or None,
        "totalTokenCount": None if tokens is None or output is None else tokens + output,
    }
    return {**{name: count for name, count in counts.items() if count is not None}, **traffic}
