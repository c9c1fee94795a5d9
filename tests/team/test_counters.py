"""Limits and budgets: what is reserved, what is settled, and what never gets out of step."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tests.team.counting import Counters
from toolglot.team.counters import Demand, Exceeded, Hold, Spent
from toolglot.team.keys import KeyLimits
from toolglot.team.limits import day_of, end_of, month_of

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()


def demand(limits: KeyLimits, tokens: int = 10, nano_usd: int = 10) -> Demand:
    return Demand("k", limits, tokens, nano_usd)


def hold_of(found: Hold | Exceeded) -> Hold:
    assert isinstance(found, Hold), found
    return found


def refusal_of(found: Hold | Exceeded | None) -> Exceeded:
    assert isinstance(found, Exceeded), found
    return found


@pytest.mark.parametrize(
    ("window", "end"),
    [
        ("2026-11-18", "2026-11-19T00:00:00+00:00"),
        ("2026-12-31", "2027-01-01T00:00:00+00:00"),
        ("2028-02-28", "2028-02-29T00:00:00+00:00"),
        ("2026-03-29", "2026-03-30T00:00:00+00:00"),  # a change to summer time in Europe
        ("2026-11", "2026-12-01T00:00:00+00:00"),
        ("2026-12", "2027-01-01T00:00:00+00:00"),
        ("2028-02", "2028-03-01T00:00:00+00:00"),
    ],
)
def test_a_window_ends_where_the_next_begins(window: str, end: str) -> None:
    at = datetime.fromisoformat(end).timestamp()
    assert end_of(window) == at
    name = day_of if len(window) == 10 else month_of
    assert (name(at - 1), name(at) > window) == (window, True)


def test_a_minutes_requests_may_come_at_once_and_the_next_one_says_when(counters: Counters) -> None:
    limits = KeyLimits(requests_per_minute=3)
    for _ in range(3):
        hold_of(counters.reserve(demand(limits), NOW))
    refused = refusal_of(counters.reserve(demand(limits), NOW))
    assert (refused.limit, refused.amount, round(refused.retry_after)) == ("requests_per_minute", 3, 20)
    refusal_of(counters.reserve(demand(limits), NOW + refused.retry_after - 0.1))
    hold_of(counters.reserve(demand(limits), NOW + refused.retry_after))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gaps=st.lists(st.floats(0, 30), min_size=1, max_size=60), per_minute=st.integers(1, 7))
def test_a_rate_never_exceeds_its_burst_and_its_refill(counters: Counters, gaps: list[float], per_minute: int) -> None:
    counters.forget_all()
    limits = KeyLimits(requests_per_minute=per_minute)
    now, accepted = NOW, []
    for gap in gaps:
        now += gap
        if isinstance(counters.reserve(demand(limits), now), Hold):
            accepted.append(now)
    for first in accepted:
        later = [at for at in accepted if at >= first]
        for number, at in enumerate(later, 1):
            assert number <= per_minute + (at - first) * per_minute / 60 + 1e-3


def test_tokens_that_were_held_in_excess_are_given_back(counters: Counters) -> None:
    limits = KeyLimits(tokens_per_minute=100)
    hold = hold_of(counters.reserve(demand(limits, tokens=90), NOW))
    assert refusal_of(counters.reserve(demand(limits, tokens=90), NOW)).limit == "tokens_per_minute"
    counters.settle(hold, Spent(10, 0))
    hold_of(counters.reserve(demand(limits, tokens=90), NOW))


def test_a_request_larger_than_a_minutes_tokens_waits_for_a_full_minute(counters: Counters) -> None:
    limits = KeyLimits(tokens_per_minute=100)
    hold = hold_of(counters.reserve(demand(limits, tokens=5000), NOW))
    assert refusal_of(counters.reserve(demand(limits, tokens=1), NOW)).limit == "tokens_per_minute"
    counters.settle(hold, Spent(5000, 0))
    assert refusal_of(counters.reserve(demand(limits, tokens=1), NOW + 60)).retry_after > 2000


def test_requests_at_once_are_freed_by_their_end_alone(counters: Counters) -> None:
    limits = KeyLimits(concurrent_requests=2)
    holds = [hold_of(counters.reserve(demand(limits), NOW)) for _ in range(2)]
    assert refusal_of(counters.reserve(demand(limits), NOW + 3600)).limit == "concurrent_requests"
    counters.settle(holds[0], Spent(0, 0))
    counters.settle(holds[0], Spent(0, 0))  # a second time changes nothing
    hold_of(counters.reserve(demand(limits), NOW))
    refusal_of(counters.reserve(demand(limits), NOW))


BUDGETS = [
    (KeyLimits(nano_usd_per_day=100), "nano_usd_per_day", "2026-11-18"),
    (KeyLimits(nano_usd_per_month=100), "nano_usd_per_month", "2026-11"),
    (KeyLimits(tokens_per_day=100), "tokens_per_day", "2026-11-18"),
    (KeyLimits(tokens_per_month=100), "tokens_per_month", "2026-11"),
]


@pytest.mark.parametrize(("limits", "name", "window"), BUDGETS, ids=[row[1] for row in BUDGETS])
def test_a_budget_is_used_up_to_its_rest_and_renews_with_its_window(
    counters: Counters, limits: KeyLimits, name: str, window: str
) -> None:
    counters.settle(hold_of(counters.reserve(demand(limits, 60, 60), NOW)), Spent(60, 60))
    rest = hold_of(counters.reserve(demand(limits, 60, 60), NOW))  # fits in part: it holds all that is left
    refused = refusal_of(counters.reserve(demand(limits, 1, 1), NOW))
    assert (refused.limit, refused.amount, refused.renews) == (name, 100, end_of(window))
    counters.settle(rest, Spent(5, 5))
    hold_of(counters.reserve(demand(limits, 60, 60), NOW))
    assert refused.renews is not None
    hold_of(counters.reserve(demand(limits, 60, 60), refused.renews))


@pytest.mark.parametrize(("limits", "name", "window"), BUDGETS, ids=[row[1] for row in BUDGETS])
def test_what_ends_after_midnight_is_paid_by_the_day_in_which_it_began(
    counters: Counters, limits: KeyLimits, name: str, window: str
) -> None:
    end = end_of(window)
    hold = hold_of(counters.reserve(demand(limits, 60, 60), end - 1))
    counters.reserve(demand(limits, 1, 1), end + 1)
    counters.settle(hold, Spent(60, 60))
    assert counters.spent("k", window) == Spent(60, 60)


def test_a_free_model_may_be_used_when_the_money_is_spent_and_its_paid_fallback_may_not(counters: Counters) -> None:
    limits = KeyLimits(nano_usd_per_day=100)
    counters.settle(hold_of(counters.reserve(demand(limits), NOW)), Spent(0, 100))
    free = hold_of(counters.reserve(demand(limits, nano_usd=0), NOW))
    assert counters.check(free, Spent(0, 0), costs_money=False, now=NOW) is None
    assert refusal_of(counters.check(free, Spent(0, 0), costs_money=True, now=NOW)).limit == "nano_usd_per_day"


def test_rounds_of_one_request_stop_when_they_have_used_the_budget(counters: Counters) -> None:
    limits = KeyLimits(nano_usd_per_day=100)
    hold = hold_of(counters.reserve(demand(limits, nano_usd=500), NOW))
    assert counters.check(hold, Spent(0, 99), costs_money=True, now=NOW) is None
    assert refusal_of(counters.check(hold, Spent(0, 100), costs_money=True, now=NOW)).limit == "nano_usd_per_day"


def test_a_limit_of_zero_allows_nothing(counters: Counters) -> None:
    for name in KeyLimits.__struct_fields__:
        counters.forget_all()
        found = counters.reserve(demand(KeyLimits(**{name: 0})), NOW)
        assert refusal_of(found).limit == name


class Counted(RuleBasedStateMachine):
    """Any order of reservations, ends, saves and reads of the database's sums."""

    holds = Bundle("holds")
    made: Counters

    def __init__(self) -> None:
        super().__init__()
        self.counters = self.made
        self.counters.forget_all()
        self.counters.load("k", {})
        self.limits = KeyLimits(nano_usd_per_day=1000, tokens_per_month=2000)
        self.open: list[Hold] = []
        self.spent = Spent(0, 0)
        self.unsaved = Spent(0, 0)
        self.elsewhere = Spent(0, 0)
        self.read_elsewhere = Spent(0, 0)
        self.over = Spent(0, 0)

    @rule(target=holds, tokens=st.integers(1, 900), nano_usd=st.integers(0, 900))
    def reserve(self, tokens: int, nano_usd: int) -> Hold | None:
        found = self.counters.reserve(Demand("k", self.limits, tokens, nano_usd), NOW)
        if isinstance(found, Exceeded):
            return None
        self.open.append(found)
        return found

    @rule(hold=consumes(holds), tokens=st.integers(0, 1200), nano_usd=st.integers(0, 1200))
    def settle(self, hold: Hold | None, tokens: int, nano_usd: int) -> None:
        if hold is None:
            return
        self.open.remove(hold)
        self.counters.settle(hold, Spent(tokens, nano_usd))
        self.spent = Spent(self.spent.tokens + tokens, self.spent.nano_usd + nano_usd)
        self.unsaved = Spent(self.unsaved.tokens + tokens, self.unsaved.nano_usd + nano_usd)
        self.over = Spent(
            self.over.tokens + max(0, tokens - hold.tokens[1]), self.over.nano_usd + max(0, nano_usd - hold.nano_usd[0])
        )

    @rule(tokens=st.integers(0, 50), nano_usd=st.integers(0, 50))
    def spend_elsewhere(self, tokens: int, nano_usd: int) -> None:
        self.elsewhere = Spent(self.elsewhere.tokens + tokens, self.elsewhere.nano_usd + nano_usd)

    @rule()
    def save_and_read(self) -> None:
        for window in (day_of(NOW), month_of(NOW)):
            self.counters.saved("k", window, *self.unsaved)
        self.unsaved = Spent(0, 0)
        total = Spent(self.spent.tokens + self.elsewhere.tokens, self.spent.nano_usd + self.elsewhere.nano_usd)
        self.counters.rebase("k", {day_of(NOW): total, month_of(NOW): total})
        if self.counters.spent("k", month_of(NOW)) != Spent(0, 0) or total == Spent(0, 0):
            self.read_elsewhere = self.elsewhere

    @invariant()
    def counts_are_what_was_settled_and_what_is_held(self) -> None:
        tokens = sum(hold.tokens[1] for hold in self.open)
        money = sum(hold.nano_usd[0] for hold in self.open)
        if self.open or self.spent != Spent(0, 0):
            of_month = self.counters.spent("k", month_of(NOW)).tokens
            assert of_month == self.spent.tokens + self.read_elsewhere.tokens + tokens
            of_day = self.counters.spent("k", day_of(NOW)).nano_usd
            assert of_day == self.spent.nano_usd + self.read_elsewhere.nano_usd + money

    @invariant()
    def budgets_are_exceeded_at_most_by_what_was_held_too_little(self) -> None:
        assert self.spent.nano_usd <= 1000 + self.over.nano_usd
        assert self.spent.tokens <= 2000 + self.over.tokens


def test_counts_are_right_after_any_order_of_events(counters: Counters) -> None:
    class CountedHere(Counted):
        made = counters

    run_state_machine_as_test(CountedHere, settings=settings(deadline=None))
