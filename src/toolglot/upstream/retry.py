"""Decide whether a failed call is retried, and whether the next upstream is tried. Pure: the caller has the clock.

Both apply only before the first byte has reached the client. After that nothing is repeated.

- `again`: the same upstream. Asking a model twice has no side effects, so a `reset` is retried even though the upstream
  may have seen the request (an idle connection that it just closed looks the same). A `timeout` is not retried: the
  upstream had its time and may still be working, and a retry would double the wait and the work.
- `elsewhere`: the next fallback. It also applies to requests that this upstream will never accept (credential, billing,
  unknown model), but not to requests that are invalid everywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from toolglot.config.schema import Retries
from toolglot.errors import REQUEST_TOO_LARGE, ApiError, ErrorKind
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.upstream.transport import TransportError, TransportFailure
from toolglot.wire import retry_after


class Policy(Struct, frozen=True):
    again: bool
    elsewhere: bool


TRANSPORT: dict[TransportFailure, Policy] = {
    # A retry would wait in the same queue, and so would a call to any other upstream.
    "pool": Policy(again=False, elsewhere=False),
    "connect": Policy(again=True, elsewhere=True),
    "reset": Policy(again=True, elsewhere=True),
    "tls": Policy(again=False, elsewhere=True),
    "timeout": Policy(again=False, elsewhere=True),
    "too_large": Policy(again=False, elsewhere=False),
}

API: dict[ErrorKind, Policy] = {
    "rate_limit": Policy(again=True, elsewhere=True),
    "overloaded": Policy(again=True, elsewhere=True),
    "server": Policy(again=True, elsewhere=True),
    "timeout": Policy(again=True, elsewhere=True),
    "conflict": Policy(again=True, elsewhere=True),
    "authentication": Policy(again=False, elsewhere=True),
    "permission": Policy(again=False, elsewhere=True),
    "billing": Policy(again=False, elsewhere=True),
    "not_found": Policy(again=False, elsewhere=True),
    "bad_request": Policy(again=False, elsewhere=False),
    "too_large": Policy(again=False, elsewhere=False),
}

CODES: dict[str, Policy] = {
    # Includes a token budget per minute that is smaller than the request: other upstreams have other budgets.
    REQUEST_TOO_LARGE: Policy(again=False, elsewhere=True),
}
"""Codes that fall back to another upstream although their kind does not."""

PERMANENT_STATUSES = frozenset({*range(300, 400), 501, 505})
"""Statuses that a retry cannot change, regardless of their error kind: redirects, not implemented."""

FINAL_CODES = frozenset({"upstream_redirect", BAD_TOOL_CALL})
"""Our own errors that are not retried at the same upstream. Whether to ask a model again after an invalid tool call
is configured separately. Such a call does not cause a fallback either: it is an answer, and has been paid for."""


def retry_delay(
    retries: Retries, attempt: int, error: ApiError | TransportError, random: float, now: float
) -> float | None:
    """Return the seconds until a retry at the same upstream; None for no retry.

    Args:
        attempt: number of calls made, this one included.
        random: a new random number from 0 to 1.
        now: Unix time in seconds, for upstreams that name a time to wait until.
    """
    if attempt >= retries.attempts or not _policy(error).again:
        return None
    if isinstance(error, ApiError) and (
        error.status in PERMANENT_STATUSES or error.code in FINAL_CODES or error.should_retry is False
    ):
        return None
    asked = requested_delay(error, now)
    if asked is None:
        # Full jitter: callers that failed together do not return together.
        return random * min(retries.longest_wait, retries.first_wait * 2.0 ** min(attempt - 1, 30))
    if asked > retries.longest_wait:
        return None
    return min(asked + random * retries.first_wait, retries.longest_wait)


def should_fall_back(error: ApiError | TransportError) -> bool:
    """Return whether to try another upstream once this one is not retried."""
    return _policy(error).elsewhere and not (isinstance(error, ApiError) and error.code == BAD_TOOL_CALL)


def _policy(error: ApiError | TransportError) -> Policy:
    if isinstance(error, TransportError):
        return TRANSPORT[error.failure]
    return CODES.get(error.code or "", API[error.kind])


def requested_delay(error: ApiError | TransportError, now: float) -> float | None:
    """Return the seconds that the upstream asked to wait; None if it did not."""
    if isinstance(error, TransportError):
        return None
    if error.retry_after is not None:
        return max(error.retry_after, 0.0)
    if error.retry_after_date is None:
        return retry_after.seconds_in_message(
            error.message
        )  # wording of OpenAI, Azure and Groq; Gemini's beside RetryInfo
    try:
        until = parsedate_to_datetime(error.retry_after_date)
    except ValueError:
        return None
    return max(until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now, 0.0)


def reset_delay(error: ApiError | TransportError, now: float) -> float | None:
    """Return the seconds until all exhausted rate limits of a reply reset, or until the time that it asks to wait for;
    the later one. None if it names none."""
    asked = requested_delay(error, now)
    limits = () if isinstance(error, TransportError) else error.limits
    resets = [_seconds_until(limit.reset, now) for limit in limits if limit.reset and limit.remaining == "0"]
    return max((seconds for seconds in (asked, *resets) if seconds is not None), default=None)


def _seconds_until(reset: str, now: float) -> float | None:
    """Return the seconds until a reset: a duration (`6m0s`), seconds, or an RFC 3339 time."""
    seconds = retry_after.seconds_of_reset(reset)
    if seconds is not None:
        return seconds
    try:
        until = datetime.fromisoformat(reset)
    except ValueError:
        return None
    return max(until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now, 0.0)
