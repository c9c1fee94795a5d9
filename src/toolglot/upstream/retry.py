"""When a call that failed is made again, and when the next upstream is asked instead. Pure: the caller has the clock.

Both are for calls of which no byte has reached the client yet; once one has, nothing is repeated.

- `again`: the same upstream. Asking a model twice changes nothing anywhere, so a `reset` is repeated even though the
  upstream may have seen the request (an idle connection that it had just closed looks the same). A `timeout` is not:
  the upstream had its time, may still be at work, and a second try would double the wait and the work.
- `elsewhere`: the next fallback. Also for what this upstream will never do (its credential, its bill, a model that it
  has not), but not for a request that is wrong everywhere.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from msgspec import Struct

from toolglot.config.schema import Retries
from toolglot.errors import REQUEST_TOO_LARGE, ApiError, ErrorKind
from toolglot.ir import replace
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.upstream.transport import TransportError, TransportFailure
from toolglot.wire import retry_after


class Policy(Struct, frozen=True):
    again: bool
    elsewhere: bool


TRANSPORT: dict[TransportFailure, Policy] = {
    # Whoever comes again stands in the same queue, and so does the way to every other upstream.
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
    # Also a budget of tokens a minute that is smaller than the request: others have other budgets.
    REQUEST_TOO_LARGE: Policy(again=False, elsewhere=True),
}
"""Codes for which another upstream is asked although their kind says otherwise."""

LASTING = frozenset({*range(300, 400), 501, 505})
"""Statuses that say the same next time, whatever kind of error they count as: redirects, what is not implemented."""

FINAL_CODES = frozenset({"upstream_redirect", BAD_TOOL_CALL})
"""Errors of our own after which the same upstream is not asked again: whether a model is, once it wrote a call that
cannot be run, the configuration says. Such a call is no reason to ask another one either: it is an answer, and has been
paid for."""


def next_wait(
    retries: Retries, attempt: int, error: ApiError | TransportError, random: float, now: float
) -> float | None:
    """Seconds until the same upstream is asked again; None when it is not.

    Args:
        attempt: how many calls have been made, this one included.
        random: a number from 0 to 1, a new one each time.
        now: the time, in Unix seconds, for an upstream that says until when to wait.
    """
    if attempt >= retries.attempts or not _policy(error).again:
        return None
    if isinstance(error, ApiError) and (
        error.status in LASTING or error.code in FINAL_CODES or error.should_retry is False
    ):
        return None
    asked = _asked_for(error, now)
    if asked is None:
        # Full jitter: callers that failed together do not come back together.
        return random * min(retries.longest_wait, retries.first_wait * 2.0 ** min(attempt - 1, 30))
    if asked > retries.longest_wait:
        return None
    return min(asked + random * retries.first_wait, retries.longest_wait)


def falls_back(error: ApiError | TransportError) -> bool:
    """Is another upstream worth asking, once this one is not asked again?"""
    return _policy(error).elsewhere and not (isinstance(error, ApiError) and error.code == BAD_TOOL_CALL)


def with_retries_used(error: ApiError, retries: Retries, attempt: int) -> ApiError:
    """The error as the client is told it after this many calls. Where they are all that may be made, its SDK is told
    not to ask again: it would multiply them."""
    if not error.retryable or attempt < retries.attempts or attempt == 1:
        return error
    return replace(error, should_retry=False)


def _policy(error: ApiError | TransportError) -> Policy:
    if isinstance(error, TransportError):
        return TRANSPORT[error.failure]
    return CODES.get(error.code or "", API[error.kind])


def _asked_for(error: ApiError | TransportError, now: float) -> float | None:
    """Seconds that the upstream asked to wait; None when it did not say."""
    if isinstance(error, TransportError):
        return None
    if error.retry_after is not None:
        return max(error.retry_after, 0.0)
    if error.retry_after_date is None:
        return retry_after.seconds_named(error.message)  # OpenAI's, Azure's and Groq's words; Gemini's beside RetryInfo
    try:
        until = parsedate_to_datetime(error.retry_after_date)
    except ValueError:
        return None
    return max(until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now, 0.0)
