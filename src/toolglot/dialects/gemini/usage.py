"""`usageMetadata` <-> `Usage`.

The counts are cut differently here: tokens of tool use are beside the prompt's, and those of thoughts beside the
answer's. The object that came is kept whole, and written again while it still says the same.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.gemini.names import USAGE, normalize
from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Usage, sum_counts
from toolglot.wire import json
from toolglot.wire.usage import ORIGINAL, CountNames, UsageReader, original, original_usage, read_plain, with_original

_MOST_SHAPES = 16
"""Reports of different members that are held before they are merged."""

_BY_MODALITY = ("promptTokensDetails", "cacheTokensDetails", "candidatesTokensDetails", "toolUsePromptTokensDetails")

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
            del rest["trafficType"]  # the answer has it
    if tools:  # part of the input, which others do not tell apart
        rest["toolUsePromptTokenCount"] = tools
    if prompt is None or answer is None:
        prompt, answer = _from_total(prompt, answer, (tools or 0) + (thoughts or 0), total)
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
    """What the frames of a stream tell of the usage. Counts grow, and the last of each holds; servers may leave out of
    later frames what an earlier one told. Most frames tell the same members with other counts: of those only the last
    is read, so a frame costs no decoding."""

    __slots__ = ("_by_shape", "_read")

    def __init__(self) -> None:
        self._by_shape: dict[bytes, bytes] = {}
        self._read: Any = None

    def add(self, report: Any) -> None:
        """One `usageMetadata`, as JSON text or as a value."""
        if type(report) is not bytes:
            self._merge(report)
        elif report:
            shape = report.translate(None, b"0123456789")
            self._by_shape.pop(shape, None)  # the merge goes by the order in which they came last
            self._by_shape[shape] = report
            if len(self._by_shape) > _MOST_SHAPES:
                self._merge()

    def _merge(self, *later: Any) -> None:
        waiting = [json.decode_frame(text) for text in self._by_shape.values()]
        self._by_shape.clear()
        for value in (*waiting, *later):
            both = isinstance(value, dict) and isinstance(self._read, dict)
            self._read = {**self._read, **value} if both else value

    def merged(self) -> Usage | None:
        self._merge()
        return decode_usage(self._read) if self._read is not None else None


def _from_total(
    prompt: int | None, answer: int | None, others: int, total: int | None
) -> tuple[int | None, int | None]:
    """The prompt and the answer, with the one that is missing taken from the total. Google leaves zeros out."""
    if total is None or (prompt is None) == (answer is None):
        return prompt, answer
    missing = total - others - (prompt or 0) - (answer or 0)
    if missing < 0:
        return prompt, answer
    return (missing, answer) if prompt is None else (prompt, missing)


def _is_all_text(counts: Any) -> bool:
    """Are these counts by modality of text alone? Then they repeat the sum."""
    return isinstance(counts, list) and all(
        isinstance(count, dict) and (count.get("modality") == "TEXT" or not count.get("tokenCount")) for count in counts
    )


def encode_usage(usage: Usage | None, tier: str | None = None) -> dict[str, Any]:
    """Only the counts that were reported: clients do without the others, and a zero would be a count."""
    traffic: dict[str, Any] = {} if tier is None else {"trafficType": _TIER_NAMES.get(tier, tier)}
    if usage is None:
        return traffic
    if NAME in usage.native and (came := original(usage, NAME, decode_usage)) is not None:
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
