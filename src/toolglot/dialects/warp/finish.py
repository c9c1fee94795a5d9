"""The event `finished`, with its reason and usage <-> stops, errors and `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.dialects.warp.fields import from_base64, remaining_fields, restore, to_base64
from toolglot.dialects.warp.native import NAME
from toolglot.errors import CONTEXT_OVERFLOW, ApiError, ErrorKind
from toolglot.ir import Stop, StopReason, Usage

FINISHED = "finished"
REASON = "reason"


class FinishFailure(Struct, frozen=True):
    """The error for a `finished` reason that means a failure."""

    kind: ErrorKind
    status: int
    code: str
    message: str


FAILURES: dict[str, FinishFailure] = {
    "max_token_limit": FinishFailure(
        "bad_request", 400, CONTEXT_OVERFLOW, "The conversation is too long for the model"
    ),
    "context_window_exceeded": FinishFailure(
        "bad_request", 400, CONTEXT_OVERFLOW, "The conversation is too long for the model"
    ),
    "quota_limit": FinishFailure("billing", 429, "insufficient_quota", "The quota of this Warp account is used up"),
    "llm_unavailable": FinishFailure(
        "overloaded", 503, "llm_unavailable", "The model is currently not available at Warp"
    ),
    "internal_error": FinishFailure("server", 502, "internal_error", "Warp's server failed"),
    "other": FinishFailure("server", 502, "other", "Warp's server ended the answer without a reason"),
    "invalid_api_key": FinishFailure(
        "authentication", 401, "invalid_api_key", "A model's API key in this Warp account is invalid"
    ),
}

_STOPS: dict[StopReason, str] = {"length": "max_token_limit", "context_full": "context_window_exceeded"}
"""Stop reasons of the IR that are not `done`. Without an answer before them, they are decoded as errors."""
_INEXPRESSIBLE_STOPS = frozenset({"stop_sequence", "refusal", "filtered", "pause", "malformed_call", "other"})
_REASONS: dict[ErrorKind, str] = {
    "billing": "quota_limit",
    "authentication": "invalid_api_key",
    "permission": "invalid_api_key",
    "too_large": "context_window_exceeded",
    "rate_limit": "llm_unavailable",
    "overloaded": "llm_unavailable",
}


# Decoding


def read_stop(finished: Any, has_answer: bool) -> Stop | ApiError:
    """Decode why the stream ended: a stop or an error. A missing reason means `done`.

    `max_token_limit` means that the answer was cut. Without an answer, it means that the input was too long.
    """
    reason = finished.WhichOneof(REASON)
    if reason in (None, "done"):
        return Stop("end", reason)
    if reason == "max_token_limit" and has_answer:
        return Stop("length", reason)
    failure = FAILURES[reason]
    detail = finished.internal_error.message if reason == "internal_error" else finished.invalid_api_key.model_name
    return ApiError(
        kind=failure.kind,
        status=failure.status,
        code=failure.code,
        message=f"{failure.message}: {detail}" if detail else failure.message,
        native={NAME: {FINISHED: to_base64(serialize(finished))}},
    )


def other_finish_fields(finished: Any) -> dict[str, Any]:
    """Return the fields of `finished` other than the reason; and the reason, if it has fields itself."""
    reason = finished.WhichOneof(REASON)
    return remaining_fields(finished, {reason: {}} if reason else {})


def read_usage(finished: Any, characters: int) -> Usage | None:
    """Read the token counts, if the server sends any.

    It usually sends only the total. Then the output is estimated from the number of characters of the answer.
    """
    if finished.token_usage:
        counts = finished.token_usage
        # In these messages, 0 also means that there is no count.
        return Usage(
            input_tokens=sum(count.total_input for count in counts),
            output_tokens=sum(count.output for count in counts),
            cached_tokens=sum(count.input_cache_read for count in counts) or None,
            cache_write_tokens=sum(count.input_cache_write for count in counts) or None,
        )
    totals = finished.conversation_usage_metadata
    maps = (totals.warp_token_usage, totals.byok_token_usage, totals.custom_endpoint_token_usage)
    total = sum(usage.total_tokens for by_model in maps for usage in by_model.values())
    total = total or sum(usage.total_tokens for usage in totals.token_usage)
    if not total:
        return None
    output = min(total, -(-characters // 4))
    return Usage(input_tokens=total - output, output_tokens=output, is_split_estimated=True)


# Encoding


def write_stop(
    stop: Stop, usage: Usage | None, left: Mapping[str, Any] | None, has_answer: bool = True
) -> tuple[Any, str | None]:
    """Make the `finished` event for a stop. Returns the event, and the reason if Warp cannot express it.

    `left` has the other fields of Warp's own `finished`. Without an answer, a limit would be read as an error, so it is
    written as `done`.
    """
    event = new("ResponseEvent")
    finished = event.finished
    finished.SetInParent()
    cut = stop.reason == "length" and not has_answer
    reason = "done" if cut else _STOPS.get(stop.reason, "done")
    if left is None or stop.raw is not None:
        getattr(finished, reason).SetInParent()
    if left is not None:
        restore(finished, left)
    elif usage is not None:
        counts = finished.token_usage.add(
            total_input=_clamp_count(usage.input_tokens), output=_clamp_count(usage.output_tokens)
        )
        if usage.cached_tokens:
            counts.input_cache_read = _clamp_count(usage.cached_tokens)
        if usage.cache_write_tokens:
            counts.input_cache_write = _clamp_count(usage.cache_write_tokens)
    return event, stop.reason if cut or stop.reason in _INEXPRESSIBLE_STOPS else None


def _clamp_count(tokens: int | None) -> int:
    return max(0, min(tokens or 0, (1 << 32) - 1))


def write_failure(error: ApiError) -> Any:
    """Make the `finished` event for an error in a stream."""
    event = new("ResponseEvent")
    own = error.native.get(NAME, {}).get(FINISHED)
    if isinstance(own, str):
        event.finished.CopyFrom(parse("StreamFinished", from_base64(own, FINISHED)))
        return event
    reason = "context_window_exceeded" if error.code == CONTEXT_OVERFLOW else _REASONS.get(error.kind, "internal_error")
    getattr(event.finished, reason).SetInParent()
    if reason == "internal_error":
        event.finished.internal_error.message = error.message
    return event
