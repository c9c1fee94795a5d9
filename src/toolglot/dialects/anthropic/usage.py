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


def decode_usage(usage: Reader) -> Usage:
    absent = [key for key in _COUNTS if not _is_count(usage.peek(key))]
    fresh, written, read, output = (0 if key in absent else usage.integer(key) or 0 for key in _COUNTS)
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


def encode_usage(usage: Usage) -> dict[str, Any]:
    wire: dict[str, Any] = {
        # Another API's counts need not add up.
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        _WRITTEN: usage.cache_write_tokens,
        _READ: usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens and "output_tokens_details" not in native_of(usage, NAME):
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return with_kept(without_missing(wire, usage), usage) if usage.native else wire


def encode_last_usage(usage: Usage | None, output_tokens: int) -> dict[str, Any]:
    """Usage at the end of a stream, where the SDKs demand the output and overwrite the input with whatever stands here.

    So an input that nobody counted is left out: a 0 would wipe out what the start said.
    """
    if usage is None:
        return {"output_tokens": output_tokens}
    wire = encode_usage(usage)
    if not usage.input_tokens:
        for key in ("input_tokens", _WRITTEN, _READ):
            wire.pop(key, None)
    return wire
