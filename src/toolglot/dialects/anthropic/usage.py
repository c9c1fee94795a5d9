"""Token counts.

On this wire, `input_tokens` excludes tokens that were read from or written to the cache. In the IR it includes them.

`iterations` lists the tokens of each step of one request. The total counts omit some steps: compactions and advisor
messages. Every step is billed, so the counts of the IR include them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolglot.dialects.anthropic.native import NAME
from toolglot.ir import Usage, sum_counts
from toolglot.wire.usage import (
    ORIGINAL,
    CountNames,
    UsageReader,
    is_count,
    original_usage,
    read_plain,
    unchanged_original,
    with_original,
)

_READ = "cache_read_input_tokens"
_WRITTEN = "cache_creation_input_tokens"
_BY_LIFETIME = "cache_creation"
_SHORT, _LONG = "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"
_DETAILS = "output_tokens_details"
_STEPS = "iterations"
_COUNTED_APART = frozenset({"compaction", "advisor_message"})
"""The types of steps that the total counts leave out."""
_TIER = "service_tier"
_INPUT = ("input_tokens", _WRITTEN, _READ, _BY_LIFETIME)
_START_ONLY = (_BY_LIFETIME, "inference_geo", _TIER)
"""The members that `message_delta` does not have."""

TIERS = {"standard": "default", "priority": "priority", "batch": "batch"}
"""The service tiers of answers -> OpenAI's names, which the IR uses."""
_TIER_NAMES = {tier: name for name, tier in TIERS.items()}


class _Counts(NamedTuple):
    """Token counts of a whole answer or of one of its steps."""

    fresh: int | None = None
    read: int | None = None
    written: int | None = None
    written_long: int | None = None
    output: int | None = None


_PLAIN: CountNames = {
    "input_tokens": "fresh",
    "output_tokens": "output",
    _READ: "read",
    _WRITTEN: "written",
    _BY_LIFETIME: {_SHORT: "written_short", _LONG: "written_long"},
    _DETAILS: {"thinking_tokens": "thinking"},
    _STEPS: None,
}


def decode_usage(usage: Any, where: str = "$.usage") -> Usage:
    found = read_plain(usage, _PLAIN)
    if found is None:
        reader = UsageReader(usage, where)
        counts = _add_steps(_read_counts(reader), usage.get(_STEPS), f"{where}.{_STEPS}")
        fresh, read, written, long, output = counts
        thinking, rest = reader.count((_DETAILS, "thinking_tokens")), reader.rest()
    else:
        plain, rest = found
        count = plain.get
        fresh, read, long, output = count("fresh"), count("read"), count("written_long"), count("output")
        written = count("written") or (sum_counts(long, count("written_short")) if usage.get(_BY_LIFETIME) else None)
        thinking = count("thinking")
    if rest and isinstance(rest.get(_TIER), str):
        del rest[_TIER]  # it is in the response's `service_tier`
    return Usage(
        input_tokens=fresh if read is None and written is None else sum_counts(fresh, read, written),
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        cache_write_long_tokens=None if long is None or written is None else min(long, written),
        reasoning_tokens=thinking,
        native=with_original(NAME, usage, rest) if rest else {NAME: {ORIGINAL: usage}},
    )


def _read_counts(reader: UsageReader) -> _Counts:
    long, short = reader.count((_BY_LIFETIME, _LONG)), reader.count((_BY_LIFETIME, _SHORT))
    return _Counts(
        fresh=reader.count(("input_tokens",)),
        read=reader.count((_READ,)),
        written=reader.count((_WRITTEN,)) or sum_counts(long, short),
        written_long=long,
        output=reader.count(("output_tokens",)),
    )


def _add_steps(whole: _Counts, steps: Any, where: str) -> _Counts:
    """Add the counts of the steps that the total counts leave out."""
    if not isinstance(steps, list) or not steps:
        return whole
    inside, apart = _Counts(), _Counts()
    for number, step in enumerate(steps):
        counts = _read_counts(UsageReader(step, f"{where}[{number}]"))
        if step.get("type") in _COUNTED_APART:
            apart = _Counts(*map(sum_counts, apart, counts))
        else:
            inside = _Counts(*map(sum_counts, inside, counts))
    return _Counts(*map(sum_counts, map(_larger, whole, inside), apart))


def _larger(first: int | None, second: int | None) -> int | None:
    return second if first is None or (second is not None and second > first) else first


def merge_usage(first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the counts at the start of a stream with those at its end. They are cumulative: the last ones win, even 0.

    No prompt has 0 tokens: if all input counts at the end are 0, an imitator has sent them at the start only.
    """
    no_input = not any(is_count(last.get(name)) and last[name] for name in _INPUT[:3])
    merged = dict(first)
    for name, value in last.items():
        if merged.get(name) is None or not (value is None or (no_input and name in _INPUT)):
            merged[name] = value
    return merged


def tier_of(usage: Usage | None) -> str | None:
    """Return the service tier of the answer. The original usage also keeps it, for this dialect."""
    tier = original_usage(usage, NAME).get(_TIER)
    return TIERS.get(tier, tier) if isinstance(tier, str) else None


def encode_usage(usage: Usage | None, tier: str | None = None) -> dict[str, Any]:
    """Encode usage with every member that the published schema requires. Usage of this API is written unchanged."""
    counted = usage or Usage()
    if NAME in counted.native and (came := unchanged_original(counted, NAME, decode_usage)) is not None:
        return came
    read, written = counted.cached_tokens, counted.cache_write_tokens
    long, thinking = counted.cache_write_long_tokens, counted.reasoning_tokens
    return {
        # Another API's counts need not add up.
        "input_tokens": max(0, (counted.input_tokens or 0) - (read or 0) - (written or 0)),
        _WRITTEN: written,
        _READ: read,
        "output_tokens": counted.output_tokens or 0,
        _BY_LIFETIME: None if written is None or long is None else {_SHORT: written - long, _LONG: long},
        "inference_geo": None,
        _DETAILS: None if thinking is None else {"thinking_tokens": thinking},
        "server_tool_use": None,
        _TIER: _TIER_NAMES.get(tier) if tier is not None else None,
    }


def encode_final_usage(usage: Usage | None, output_tokens: int, tier: str | None = None) -> dict[str, Any]:
    """Encode usage for the end of a stream. The SDKs require the output count here, and overwrite the input count.

    An unknown input count is null, since 0 would overwrite the count of the start. `tier` is set if the start did not
    have it.
    """
    wire = encode_usage(usage)
    if usage is None or usage.output_tokens is None:
        wire["output_tokens"] = output_tokens
    if usage is None or not usage.input_tokens:
        wire["input_tokens"] = None
    if usage is None or NAME not in usage.native:
        for key in _START_ONLY:
            del wire[key]
        if tier is not None:
            wire["service_tier"] = _TIER_NAMES.get(tier)
    return wire
