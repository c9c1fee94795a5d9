"""Token counts.

On this wire `input_tokens` leaves out what was read from or written to the cache; in the IR it does not.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.anthropic.native import NAME, with_kept, without_missing
from toolglot.ir import Usage, native_of
from toolglot.wire.reader import Reader, keep

_READ = "cache_read_input_tokens"
_WRITTEN = "cache_creation_input_tokens"
_COUNTS = ("input_tokens", _WRITTEN, _READ, "output_tokens")
_DETAILS = ("cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier")
"""The other members that the published schema requires. They are null where nothing is known."""
_START_ONLY = ("cache_creation", "inference_geo", "service_tier")
"""The members of these that `message_delta` does not have."""

TIERS = {"standard": "default", "priority": "priority", "batch": "batch"}
"""The service tiers of answers, in OpenAI's words."""
_TIER_NAMES = {tier: name for name, tier in TIERS.items()}


def decode_usage(usage: Reader) -> Usage:
    absent = [key for key in _COUNTS if not _is_count(usage.peek(key))]
    fresh, written, read, output = (0 if key in absent else usage.integer(key) or 0 for key in _COUNTS)
    absent += [key for key in _DETAILS if key not in usage.rest()]
    details = usage.peek("output_tokens_details")
    thinking = details.get("thinking_tokens") if isinstance(details, dict) else None
    return Usage(
        input_tokens=fresh + read + written,
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thinking if type(thinking) is int else 0,
        native=keep(NAME, usage, missing=absent or None),
    )


def _is_count(value: Any) -> bool:
    """Is something counted here? Some imitators write -1 for what they do not know."""
    return value is not None and not (type(value) is int and value < 0)


def tier_of(usage: Usage | None) -> str | None:
    """The tier that served the request. It also stays with the usage, for this dialect."""
    tier = native_of(usage, NAME).get("service_tier") if usage is not None else None
    return TIERS.get(tier, tier) if isinstance(tier, str) else None


def encode_usage(usage: Usage | None, tier: str | None = None) -> dict[str, Any]:
    """Usage with every member that the published schema requires; what this API itself left out stays out."""
    counted = usage or Usage()
    wire: dict[str, Any] = {
        # Another API's counts need not add up.
        "input_tokens": max(0, counted.input_tokens - counted.cached_tokens - counted.cache_write_tokens),
        _WRITTEN: counted.cache_write_tokens,
        _READ: counted.cached_tokens,
        "output_tokens": counted.output_tokens,
    }
    if NAME in counted.native:
        return with_kept(without_missing(wire, counted), counted)
    thinking, written = counted.reasoning_tokens, counted.cache_write_tokens
    # Only this API tells for how long a token was written.
    wire["cache_creation"] = None if written else {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    wire["inference_geo"] = None
    wire["output_tokens_details"] = {"thinking_tokens": thinking} if thinking else None
    wire["server_tool_use"] = None
    wire["service_tier"] = _TIER_NAMES.get(tier) if tier is not None else None
    return wire


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
