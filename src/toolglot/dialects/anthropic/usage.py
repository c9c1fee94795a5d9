"""Token counts.

On this wire `input_tokens` leaves out what was read from or written to the cache; in the IR it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.dialects.anthropic.native import NAME
from toolglot.ir import Usage
from toolglot.wire.usage import UsageReader, is_count, original, original_usage, with_original

_READ = "cache_read_input_tokens"
_WRITTEN = "cache_creation_input_tokens"
_BY_LIFETIME = "cache_creation"
_SHORT, _LONG = "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"
_DETAILS = "output_tokens_details"
_TIER = "service_tier"
_INPUT = ("input_tokens", _WRITTEN, _READ, _BY_LIFETIME)
_START_ONLY = (_BY_LIFETIME, "inference_geo", _TIER)
"""The members that `message_delta` does not have."""

TIERS = {"standard": "default", "priority": "priority", "batch": "batch"}
"""The service tiers of answers, in OpenAI's words."""
_TIER_NAMES = {tier: name for name, tier in TIERS.items()}


def decode_usage(usage: Any, where: str = "$.usage") -> Usage:
    reader = UsageReader(usage, where)
    fresh, read, output = (reader.count((name,)) for name in ("input_tokens", _READ, "output_tokens"))
    long, short = reader.count((_BY_LIFETIME, _LONG)), reader.count((_BY_LIFETIME, _SHORT))
    written = reader.count((_WRITTEN,)) or long + short
    if isinstance(usage.get(_TIER), str):
        reader.skip((_TIER,))  # the answer has it
    return Usage(
        input_tokens=fresh + read + written,
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        cache_write_long_tokens=min(long, written),
        reasoning_tokens=reader.count((_DETAILS, "thinking_tokens")),
        native=with_original(NAME, usage, reader.rest()),
    )


def merge_usage(first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """The counts at the start of a stream and those at its end, which are cumulative: the last ones win, also a 0.

    No prompt has 0 tokens: where the end says so of all its input, it is an imitator that has told it at the start.
    """
    silent = not any(is_count(last.get(name)) and last[name] for name in _INPUT[:3])
    merged = dict(first)
    for name, value in last.items():
        if merged.get(name) is None or not (value is None or (silent and name in _INPUT)):
            merged[name] = value
    return merged


def tier_of(usage: Usage | None) -> str | None:
    """The tier that served the request. It also stays with the usage, for this dialect."""
    tier = original_usage(usage, NAME).get(_TIER)
    return TIERS.get(tier, tier) if isinstance(tier, str) else None


def encode_usage(usage: Usage | None, tier: str | None = None) -> dict[str, Any]:
    """Usage with every member that the published schema requires; what this API itself left out stays out."""
    counted = usage or Usage()
    if (came := original(counted, NAME, decode_usage)) is not None:
        return came
    written, long = counted.cache_write_tokens, counted.cache_write_long_tokens
    thinking = counted.reasoning_tokens
    return {
        # Another API's counts need not add up.
        "input_tokens": max(0, counted.input_tokens - counted.cached_tokens - written),
        _WRITTEN: written,
        _READ: counted.cached_tokens,
        "output_tokens": counted.output_tokens,
        _BY_LIFETIME: {_SHORT: written - long, _LONG: long},
        "inference_geo": None,
        _DETAILS: {"thinking_tokens": thinking} if thinking else None,
        "server_tool_use": None,
        _TIER: _TIER_NAMES.get(tier) if tier is not None else None,
    }


def encode_last_usage(usage: Usage | None, output_tokens: int, tier: str | None = None) -> dict[str, Any]:
    """Usage at the end of a stream, where the SDKs demand the output and overwrite the input with whatever stands here.

    So an input that nobody counted is null: a 0 would wipe out what the start said. `tier` is one that the start did
    not know.
    """
    wire = encode_usage(usage)
    if usage is None:
        wire["output_tokens"] = output_tokens
    if usage is None or not usage.input_tokens:
        wire |= dict.fromkeys(("input_tokens", _WRITTEN, _READ))
    if usage is None or NAME not in usage.native:
        for key in _START_ONLY:
            del wire[key]
        if tier is not None:
            wire["service_tier"] = _TIER_NAMES.get(tier)
    return wire
