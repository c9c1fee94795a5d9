"""Retries and fallbacks, row by row."""

from __future__ import annotations

from typing import get_args

import pytest

from toolglot.config.schema import Retries
from toolglot.errors import ApiError, ErrorKind
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.upstream.retry import API, TRANSPORT, retry_delay, should_fall_back
from toolglot.upstream.transport import TransportError, TransportFailure
from toolglot.wire.retry_after import seconds_in_message

RETRIES = Retries(attempts=4, first_wait=0.5, longest_wait=30.0)
NOW = 1_800_000_000.0
BUSY = ApiError(kind="overloaded", message="busy", status=529)


def wait(error: ApiError | TransportError, attempt: int = 1, random: float = 1.0) -> float | None:
    return retry_delay(RETRIES, attempt, error, random, NOW)


def test_every_failure_has_a_row() -> None:
    assert set(API) == set(get_args(ErrorKind))
    assert set(TRANSPORT) == set(get_args(TransportFailure))


@pytest.mark.parametrize(
    ("failure", "again", "elsewhere"),
    [
        ("pool", False, False),
        ("connect", True, True),
        ("reset", True, True),
        ("tls", False, True),
        ("timeout", False, True),
        ("too_large", False, False),
    ],
)
def test_what_follows_a_failure_of_the_connection(failure: TransportFailure, again: bool, elsewhere: bool) -> None:
    error = TransportError(failure, "it failed")
    assert (wait(error) is not None, should_fall_back(error)) == (again, elsewhere)


@pytest.mark.parametrize(
    ("kind", "status", "again", "elsewhere"),
    [
        ("rate_limit", 429, True, True),
        ("overloaded", 529, True, True),
        ("server", 500, True, True),
        ("server", 502, True, True),
        ("timeout", 504, True, True),
        ("timeout", 408, True, True),
        ("conflict", 409, True, True),
        ("server", 501, False, True),
        ("server", 307, False, True),
        ("authentication", 401, False, True),
        ("permission", 403, False, True),
        ("billing", 402, False, True),
        ("not_found", 404, False, True),
        ("bad_request", 400, False, False),
        ("too_large", 413, False, False),
    ],
)
def test_what_follows_an_error_of_the_api(kind: ErrorKind, status: int, again: bool, elsewhere: bool) -> None:
    error = ApiError(kind=kind, message="no", status=status)
    assert (wait(error) is not None, should_fall_back(error)) == (again, elsewhere)


def test_a_call_that_a_model_wrote_badly_is_no_reason_to_ask_anybody_again() -> None:
    error = ApiError(kind="server", message="no", status=502, code=BAD_TOOL_CALL)
    assert (wait(error), should_fall_back(error)) == (None, False)


def test_waits_double_up_to_the_longest() -> None:
    many = Retries(attempts=100, first_wait=0.5, longest_wait=5.0)
    waits = [retry_delay(many, attempt, BUSY, 1.0, NOW) for attempt in (1, 2, 3, 4, 5, 99)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_waits_are_spread_over_the_whole_time() -> None:
    assert [wait(BUSY, 3, random) for random in (0.0, 0.25, 1.0)] == [0.0, 0.5, 2.0]


def test_the_last_attempt_is_the_last() -> None:
    assert wait(BUSY, 3) is not None
    assert wait(BUSY, 4) is None
    assert retry_delay(Retries(attempts=1), 1, BUSY, 0.5, NOW) is None


def test_an_upstream_that_says_not_to_ask_again_is_not_asked_again() -> None:
    error = ApiError(kind="server", message="no", status=500, should_retry=False)
    assert (wait(error), should_fall_back(error)) == (None, True)
    assert wait(ApiError(kind="server", message="no", status=500, should_retry=True)) is not None


def test_an_upstream_that_says_how_long_is_waited_for_and_no_shorter() -> None:
    error = ApiError(kind="rate_limit", message="slow down", status=429, retry_after=7.0)
    assert wait(error, 1, 0.0) == 7.0
    assert wait(error, 1, 1.0) == 7.5


def test_the_longest_wait_is_waited_and_a_longer_one_is_not() -> None:
    error = ApiError(kind="rate_limit", message="slow down", status=429, retry_after=30.0)
    assert wait(error) == 30.0
    assert wait(ApiError(kind="rate_limit", message="slow down", status=429, retry_after=30.1)) is None


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Fri, 15 Jan 2027 08:00:10 GMT", 10.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Fri, 15 Jan 2027 09:00:00 GMT", None),
    ],
)
def test_an_upstream_may_say_until_when(date: str, expected: float | None) -> None:
    error = ApiError(kind="overloaded", message="busy", status=503, retry_after_date=date)
    assert wait(error, 1, 0.0) == expected


def test_a_date_that_is_none_says_nothing() -> None:
    error = ApiError(kind="overloaded", message="busy", status=503, retry_after_date="Fri, 99 Foo 2027 08:00:10 GMT")
    assert wait(error) == 0.5


NAMED_WAITS = {
    "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000."
    " Please try again in 1.898s. Visit https://platform.openai.com/account/rate-limits to learn more.": 1.898,
    "Rate limit reached for requests. Please try again in 20s.": 20.0,
    "Please try again in 59ms.": 0.059,
    "Please try again in 6m0s.": 360.0,
    "Rate limit reached for model `llama` on tokens per day (TPD). Please try again in 1h2m3.5s.": 3723.5,
    "Requests have exceeded the call rate limit of your pricing tier. Please retry after 26 seconds.": 26.0,
    "Please retry after 1 second. Contact Azure support.": 1.0,
    "You exceeded your current quota, please check your plan.\nPlease retry in 34.074824224s.": 34.1,
    "Rate limit of 15 per 60s exceeded for UserByModelByMinute. Please wait 28 seconds before retrying.": 28.0,
    "No deployments available. Try again in 60 seconds. Passed model=m": 60.0,
    "Too many requests. Try again in 1 minute and 5 seconds.": 65.0,
    "The model is loading; retry in approximately 20 sec": 20.0,
    "Too many requests, please wait before trying again.": None,
    "Overloaded. Please try again later.": None,
    "retry 3 times with 5 seconds in between": None,
    "Please try again in 5 attempts": None,
    "try again in 5 megabytes": None,
    "Limit: 60 seconds": None,
}


@pytest.mark.parametrize("message", NAMED_WAITS)
def test_a_wait_that_a_message_names_is_read(message: str) -> None:
    expected = NAMED_WAITS[message]
    assert seconds_in_message(message) == (None if expected is None else pytest.approx(expected, 1e-2))


def test_a_wait_in_a_message_is_looked_for_in_linear_time() -> None:
    for hostile in ("try again in " * 100_000, "wait 1s" * 200_000, "retry in " + "1s 1m " * 200_000):
        seconds_in_message(hostile)


def test_a_wait_that_a_message_names_counts_for_a_retry_where_no_header_does() -> None:
    error = ApiError(kind="rate_limit", status=429, message="Please try again in 1.898s.")
    assert wait(error, random=0.0) == pytest.approx(1.898)
    assert wait(ApiError(kind="rate_limit", status=429, message=error.message, retry_after=3.0), random=0.0) == 3.0
    assert wait(ApiError(kind="rate_limit", status=429, message="Please try again in 6m0s.")) is None  # too long
