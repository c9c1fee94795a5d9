"""The circuit breaker, on a clock that stands still unless it is moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import ApiError, ErrorKind
from toolglot.upstream.breaker import Breaker, Ticket, is_health_failure
from toolglot.upstream.transport import TransportError, TransportFailure

DOWN = TransportError("connect", "refused")


def tried(breaker: Breaker, now: float, error: ApiError | TransportError | None) -> bool:
    """One call, if it is let through."""
    ticket = breaker.enter(now)
    if ticket is not None:
        breaker.settle(ticket, error, now)
    return ticket is not None


def opened(failures: int = 3, rest: float = 30.0) -> Breaker:
    """A breaker that has opened at 0."""
    breaker = Breaker(failures, rest)
    for _ in range(failures):
        assert tried(breaker, 0.0, DOWN)
    return breaker


def probe(breaker: Breaker, now: float) -> Ticket:
    ticket = breaker.enter(now)
    assert ticket is not None
    return ticket


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = Breaker(3, 30.0)
    assert [tried(breaker, 0.0, DOWN) for _ in range(5)] == [True, True, True, False, False]


def test_a_success_between_failures_starts_the_count_again() -> None:
    breaker = Breaker(2, 30.0)
    for _ in range(5):
        assert tried(breaker, 0.0, DOWN)
        assert tried(breaker, 0.0, None)
    assert breaker.enter(0.0)


def test_it_rests_for_as_long_as_it_is_told() -> None:
    breaker = opened()
    assert breaker.enter(29.9) is None
    assert breaker.wait(10.0) == 20.0
    assert breaker.wait(30.0) == 0.0
    assert breaker.enter(30.0)


def test_one_probe_goes_through_at_a_time() -> None:
    breaker = opened()
    assert breaker.enter(31.0)
    assert [breaker.enter(31.0) for _ in range(3)] == [None, None, None]


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = opened()
    breaker.settle(probe(breaker, 31.0), None, 31.0)
    assert tried(breaker, 31.0, DOWN)
    assert breaker.enter(31.0)


def test_a_probe_that_fails_opens_it_for_another_rest() -> None:
    breaker = opened()
    breaker.settle(probe(breaker, 31.0), DOWN, 32.0)
    assert breaker.enter(61.9) is None
    assert breaker.enter(62.0)


def test_a_probe_whose_client_went_away_makes_room_for_the_next() -> None:
    breaker = opened()
    breaker.leave(probe(breaker, 31.0))
    assert breaker.enter(31.0)


def test_a_probe_of_which_nothing_is_heard_does_not_block_for_ever() -> None:
    breaker = opened()
    assert breaker.enter(31.0)
    assert breaker.enter(60.9) is None
    assert breaker.enter(61.0)


def test_calls_from_before_it_opened_change_nothing() -> None:
    breaker = Breaker(3, 30.0)
    early = [probe(breaker, 0.0) for _ in range(3)]
    for _ in range(3):
        tried(breaker, 0.0, DOWN)
    breaker.settle(early[0], None, 1.0)
    assert breaker.enter(1.0) is None
    breaker.settle(early[1], DOWN, 20.0)
    now = probe(breaker, 30.0)
    breaker.leave(early[2])
    assert breaker.enter(30.0) is None  # the probe is still out
    breaker.settle(now, None, 31.0)
    assert breaker.wait(31.0) == 0.0


def test_none_at_all_never_opens() -> None:
    breaker = Breaker(0, 30.0)
    assert all(tried(breaker, 0.0, DOWN) for _ in range(100))


@pytest.mark.parametrize(
    ("failure", "expected"),
    [("connect", True), ("tls", True), ("timeout", True), ("reset", True), ("too_large", False), ("pool", False)],
)
def test_which_failures_of_the_connection_count(failure: TransportFailure, expected: bool) -> None:
    assert is_health_failure(TransportError(failure, "")) is expected


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
    assert is_health_failure(ApiError(kind=kind, message="")) is expected


def test_an_error_of_an_upstream_that_is_well_closes_it() -> None:
    breaker = opened()
    breaker.settle(probe(breaker, 31.0), ApiError(kind="bad_request", message="no such tool", status=400), 31.0)
    assert breaker.wait(31.0) == 0.0


def test_settling_counts_what_counts() -> None:
    breaker = Breaker(2, 30.0)
    for error in (DOWN, None, ApiError(kind="server", message="", status=500)):
        assert tried(breaker, 0.0, error)
    assert tried(breaker, 0.0, TransportError("reset", ""))
    assert breaker.enter(0.0) is None


STEPS = st.sampled_from(["enter", "succeeded", "failed", "left"])


@given(st.lists(st.tuples(STEPS, st.floats(0, 40), st.integers(0, 3)), max_size=60))
def test_whatever_happens_a_call_goes_through_again_after_a_rest(steps: list[tuple[str, float, int]]) -> None:
    breaker, now = Breaker(2, 30.0), 0.0
    tickets: list[Ticket] = []
    for step, passed, which in steps:
        now += passed
        if step == "enter":
            tickets += [ticket] if (ticket := breaker.enter(now)) is not None else []
        elif which < len(tickets) and step == "left":
            breaker.leave(tickets.pop(which))
        elif which < len(tickets):
            breaker.settle(tickets.pop(which), DOWN if step == "failed" else None, now)
    assert breaker.enter(now + 30.0)


def test_a_call_that_never_left_says_nothing_of_the_upstream() -> None:
    ours = TransportError("pool", "all in use")
    breaker = Breaker(3, 30.0)
    for error in (DOWN, DOWN, *[ours] * 10, DOWN):
        assert tried(breaker, 0.0, error)
    assert breaker.enter(0.0) is None, "failures on both sides of it are in a row"
    assert tried(breaker, 30.0, ours)
    assert breaker.enter(30.0), "the probe was not made: the next call may be it"
    assert breaker.enter(30.0) is None, "the breaker is not closed either"


def test_a_probe_whose_stream_begins_closes_it_and_its_break_counts_as_one_failure() -> None:
    breaker = opened(failures=2)
    ticket = probe(breaker, 31.0)
    breaker.on_stream_start(ticket)
    assert breaker.wait(31.0) == 0.0
    breaker.settle(ticket, DOWN, 32.0)
    assert breaker.wait(32.0) == 0.0
    other = probe(breaker, 32.0)
    breaker.on_stream_start(other)
    breaker.settle(other, DOWN, 33.0)
    assert breaker.wait(33.0) == 30.0
