"""The circuit breaker, on a clock that stands still unless it is moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import ApiError, ErrorKind
from toolglot.upstream.breaker import Breaker, is_unwell
from toolglot.upstream.transport import TransportError, TransportFailure


def opened(failures: int = 3, rest: float = 30.0) -> Breaker:
    """A breaker that has opened at 0."""
    breaker = Breaker(failures, rest)
    for _ in range(failures):
        assert breaker.allows(0.0)
        breaker.failed(0.0)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = Breaker(3, 30.0)
    for _ in range(2):
        breaker.failed(0.0)
    assert breaker.allows(0.0)
    assert breaker.state(0.0) == "closed"
    breaker.failed(0.0)
    assert not breaker.allows(0.0)
    assert breaker.state(0.0) == "open"


def test_a_success_between_failures_starts_the_count_again() -> None:
    breaker = Breaker(2, 30.0)
    for _ in range(5):
        breaker.failed(0.0)
        breaker.succeeded()
    assert breaker.allows(0.0)


def test_it_rests_for_as_long_as_it_is_told() -> None:
    breaker = opened()
    assert not breaker.allows(29.9)
    assert breaker.wait(10.0) == 20.0
    assert breaker.allows(30.0)


def test_one_probe_goes_through_at_a_time() -> None:
    breaker = opened()
    assert breaker.state(31.0) == "half_open"
    assert breaker.allows(31.0)
    assert [breaker.allows(31.0) for _ in range(3)] == [False, False, False]
    assert breaker.state(31.0) == "half_open"


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = opened()
    assert breaker.allows(31.0)
    breaker.succeeded()
    assert breaker.state(31.0) == "closed"
    breaker.failed(31.0)
    assert breaker.allows(31.0)


def test_a_probe_that_fails_opens_it_for_another_rest() -> None:
    breaker = opened()
    assert breaker.allows(31.0)
    breaker.failed(32.0)
    assert not breaker.allows(61.9)
    assert breaker.allows(62.0)


def test_a_probe_whose_client_went_away_makes_room_for_the_next() -> None:
    breaker = opened()
    assert breaker.allows(31.0)
    breaker.left()
    assert breaker.allows(31.0)


def test_a_probe_of_which_nothing_is_heard_does_not_block_for_ever() -> None:
    breaker = opened()
    assert breaker.allows(31.0)
    assert not breaker.allows(60.9)
    assert breaker.allows(61.0)


def test_calls_from_before_it_opened_change_nothing() -> None:
    breaker = opened()
    breaker.succeeded()
    assert not breaker.allows(1.0)
    breaker.failed(20.0)
    assert breaker.allows(30.0)


def test_none_at_all_never_opens() -> None:
    breaker = Breaker(0, 30.0)
    for _ in range(100):
        breaker.failed(0.0)
    assert breaker.allows(0.0)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [("connect", True), ("tls", True), ("timeout", True), ("reset", True), ("too_large", False)],
)
def test_which_failures_of_the_connection_count(failure: TransportFailure, expected: bool) -> None:
    assert is_unwell(TransportError(failure, "")) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("server", True),
        ("overloaded", True),
        ("timeout", True),
        ("rate_limit", False),
        ("bad_request", False),
        ("authentication", False),
        ("billing", False),
        ("permission", False),
        ("not_found", False),
        ("conflict", False),
        ("too_large", False),
    ],
)
def test_which_errors_of_the_api_count(kind: ErrorKind, expected: bool) -> None:
    assert is_unwell(ApiError(kind=kind, message="")) is expected


def test_an_error_of_an_upstream_that_is_well_closes_it() -> None:
    breaker = opened()
    assert breaker.allows(31.0)
    breaker.settle(ApiError(kind="bad_request", message="no such tool", status=400), 31.0)
    assert breaker.state(31.0) == "closed"


def test_settling_counts_what_counts() -> None:
    breaker = Breaker(2, 30.0)
    breaker.settle(TransportError("connect", "refused"), 0.0)
    breaker.settle(None, 0.0)
    breaker.settle(ApiError(kind="server", message="", status=500), 0.0)
    assert breaker.allows(0.0)
    breaker.settle(TransportError("reset", ""), 0.0)
    assert not breaker.allows(0.0)


@given(st.lists(st.tuples(st.sampled_from(["allows", "succeeded", "failed", "left"]), st.floats(0, 40)), max_size=60))
def test_whatever_happens_a_call_goes_through_again_after_a_rest(steps: list[tuple[str, float]]) -> None:
    breaker, now = Breaker(2, 30.0), 0.0
    for step, passed in steps:
        now += passed
        if step == "allows":
            breaker.allows(now)
        elif step == "failed":
            breaker.failed(now)
        else:
            getattr(breaker, step)()
    assert breaker.allows(now + 30.0)
