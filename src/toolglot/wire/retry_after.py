"""Retry delays: the header `retry-after`, in seconds or as a date, and delays named in messages.

An error inside a stream has no headers. Its message names the delay in OpenAI's wording, which Codex recognizes.

The core has no clock, so a date is passed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil

from msgspec.structs import replace

from toolglot.errors import ApiError, header_value

LONGEST_WAIT = 86_400
"""Maximum wait in seconds. No client waits longer."""

_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Seconds by the beginning of a unit's name, longer beginnings first."""
_AMOUNT = (
    r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s?"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
)
_NAMED_WAIT = re.compile(
    rf"\b(?:try(?:ing)? again|retry(?:ing)?|wait(?:ing)?)(?: your request)?"
    rf"(?: in| after| for| at least| about| approximately| another| up to)*:? ((?:{_AMOUNT}(?:,? (?:and )?)?)+)",
    re.IGNORECASE,
)
_ONE_AMOUNT = re.compile(_AMOUNT, re.IGNORECASE)
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|[smhd])){1,4}")
_SEARCHED = 4000
"""Characters of a message that are searched."""


def seconds_in_message(message: str) -> float | None:
    """Return the delay that a message names, in the wording of vendors: "Please try again in 6m0.5s", "Please retry
    after 26 seconds", "Please wait 28 seconds before retrying".
    """
    found = _NAMED_WAIT.search(message, 0, _SEARCHED)
    if found is None:
        return None
    return sum(float(amount) * _seconds_per_unit(unit.lower()) for amount, unit in _ONE_AMOUNT.findall(found[1]))


def seconds_of_reset(text: str) -> float | None:
    """Parse the time until a rate limit resets: a duration like `6m0s` or `120ms`, or seconds."""
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(amount) * _seconds_per_unit(unit) for amount, unit in _ONE_AMOUNT.findall(text))


def _seconds_per_unit(unit: str) -> float:
    return next(seconds for beginning, seconds in _UNITS.items() if unit.startswith(beginning))


def seconds_of_duration(text: str) -> float | None:
    """Parse a duration in the JSON form of Protocol Buffers: `3.5s`."""
    return float(text[:-1]) if text.endswith("s") and _SECONDS.fullmatch(text[:-1]) else None


def seconds_in(headers: Mapping[str, str]) -> float | None:
    """Read the seconds from `retry-after-ms`, which OpenAI's and Anthropic's clients prefer, or from `retry-after`."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def date_in(headers: Mapping[str, str]) -> str | None:
    """Read an HTTP date from `retry-after`."""
    value = header_value(headers.get("retry-after"))
    return value if value is not None and _HTTP_DATE.fullmatch(value) else None


_SHOULD_RETRY = {"true": True, "false": False}


def should_retry_in(headers: Mapping[str, str]) -> bool | None:
    """Return the value of `x-should-retry`, with which OpenAI's and Anthropic's servers override the status."""
    return _SHOULD_RETRY.get(headers.get("x-should-retry", "").strip().lower())


def should_retry_header(error: ApiError) -> dict[str, str]:
    """Return `x-should-retry` for this error; empty if the upstream sent none."""
    return {} if error.should_retry is None else {"x-should-retry": "true" if error.should_retry else "false"}


def whole_seconds(error: ApiError) -> int | None:
    """Return the delay in whole seconds, rounded up, as HTTP requires."""
    wait = error.retry_after
    return ceil(min(wait, LONGEST_WAIT)) if wait is not None and wait >= 0 else None


def retry_after_header(error: ApiError) -> dict[str, str]:
    """Return `retry-after` for this error; empty if the delay is unknown."""
    seconds = whole_seconds(error)
    value = str(seconds) if seconds is not None else header_value(error.retry_after_date)
    return {} if value is None else {"retry-after": value}


def name_wait(error: ApiError) -> ApiError:
    """Return the error with its delay in the message, for an event in a stream. A message that already names a delay
    stays unchanged.
    """
    wait, date = error.retry_after, error.retry_after_date
    if seconds_in_message(error.message) is not None:
        return error
    if wait is not None and wait >= 0:
        hint = f"Please try again in {round(min(wait, LONGEST_WAIT), 3):g}s."
    elif date is not None and date not in error.message:
        hint = f"Please try again after {date}."
    else:
        return error
    return replace(error, message=f"{error.message.rstrip()} {hint}".strip())
