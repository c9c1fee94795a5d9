"""The choice of a pool's member: laws over any pools, and the times of cool-downs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import ApiError, ErrorKind, RateLimit
from toolglot.upstream.breaker import Ticket
from toolglot.upstream.pool import (
    JITTER,
    LOAD_FACTOR,
    LOAD_SLACK,
    TRIAL_SECONDS,
    Member,
    MemberChoice,
    Pool,
    PoolTicket,
    Turn,
)
from toolglot.upstream.retry import reset_delay
from toolglot.upstream.transport import TransportError

WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 3.0])
GROUPS = st.sampled_from(["", "", "x", "y"])
CONVERSATIONS = [number.to_bytes(16, "big") for number in range(60)]


@st.composite
def _members(draw: st.DrawFn, least: int = 1) -> list[Member]:
    count = draw(st.integers(least, 6))
    return [Member(str(number), f"identity {number}", draw(WEIGHTS), draw(GROUPS)) for number in range(count)]


def no_random() -> float:
    raise AssertionError("a conversation with an id needs no random number")


def choose(pool: Pool, conversation: bytes | None, now: float = 0.0, **turn: Any) -> int:
    found = pool.choose(Turn(conversation, "m", **turn), now, no_random if conversation else Random(1).random)
    assert found is not None
    return found.member


def enter(pool: Pool, number: int, now: float = 0.0, model: str = "m") -> PoolTicket:
    ticket = pool.enter(number, model, now)
    assert ticket is not None
    return ticket


def error(kind: ErrorKind = "rate_limit", **fields: Any) -> ApiError:
    return ApiError(kind=kind, message="no", **fields)


def names(pool: Pool) -> list[str]:
    """The member of each conversation."""
    return [pool.members[choose(pool, each)].identity for each in CONVERSATIONS]


# Laws of the choice


@given(_members(), st.randoms())
def test_the_choice_depends_on_neither_the_order_nor_the_names_of_the_members(
    members: list[Member], random: Random
) -> None:
    others = [Member(f"renamed {each.name}", each.identity, each.weight, each.group) for each in members]
    random.shuffle(others)
    assert names(Pool("p", members)) == names(Pool("p", others))


@given(_members(), st.data())
def test_the_choice_is_the_same_in_every_gateway_and_at_every_time(members: list[Member], data: st.DataObject) -> None:
    pool = Pool("p", members)
    first = names(pool)
    for _ in range(data.draw(st.integers(0, 5))):  # calls that have ended leave no trace
        pool.settle(enter(pool, data.draw(st.integers(0, len(members) - 1))), None, 0.0)
    assert names(pool) == first == names(Pool("p", members))


@given(_members(least=2), st.data())
def test_only_conversations_of_a_removed_member_move(members: list[Member], data: st.DataObject) -> None:
    """Of a group that keeps other members, its conversations may move too: the group has less weight."""
    gone = members[data.draw(st.integers(0, len(members) - 1))]
    left = [each for each in members if each is not gone]
    of_gone = {each.identity for each in members if each is gone or (gone.group and each.group == gone.group)}
    for before, after in zip(names(Pool("p", members)), names(Pool("p", left)), strict=True):
        assert before == after or before in of_gone


@given(_members(least=2), st.data())
def test_only_conversations_of_a_cooling_member_move_and_they_come_back(
    members: list[Member], data: st.DataObject
) -> None:
    pool = Pool("p", members)
    before = names(pool)
    number = data.draw(st.integers(0, len(members) - 1))
    pool.settle(enter(pool, number), error("authentication"), 0.0)
    during = names(pool)
    for old, new in zip(before, during, strict=True):
        assert new != members[number].identity
        assert old == new or old == members[number].identity
    pool.settle(enter(pool, number, 1000.0), None, 1000.0)
    assert names(pool) == before


@pytest.mark.parametrize("groups", [["", "", ""], ["x", "x", ""], ["x", "x", "x"]])
def test_conversations_are_shared_by_weight(groups: Sequence[str]) -> None:
    weights = [1.0, 2.0, 5.0]
    members = [
        Member(str(n), f"identity {n}", weight, group)
        for n, (weight, group) in enumerate(zip(weights, groups, strict=True))
    ]
    pool = Pool("p", members)
    count = 8000
    counted = Counter(pool.rank(number.to_bytes(16, "big"))[0] for number in range(count))
    for number, weight in enumerate(weights):
        assert abs(counted[number] / count - weight / 8) < 0.02


def test_requests_without_an_id_are_shared_by_weight() -> None:
    pool, random = Pool("p", [Member("a", "a", 1.0), Member("b", "b", 3.0)]), Random(1)
    for _ in range(400):
        choice = pool.choose(Turn(None), 0.0, random.random)
        assert choice is not None
        enter(pool, choice.member)
    assert abs(pool.in_flight[0] - 100) <= 2


@given(_members(), st.lists(st.tuples(st.integers(0, 59), st.booleans()), max_size=80))
def test_no_member_above_the_load_bound_gets_a_request(members: list[Member], steps: list[tuple[int, bool]]) -> None:
    pool = Pool("p", members)
    tickets: list[PoolTicket] = []
    for conversation, ends in steps:
        number = choose(pool, CONVERSATIONS[conversation % 7])
        share = sum(pool.in_flight) * members[number].weight / sum(each.weight for each in members)
        assert len(members) == 1 or pool.in_flight[number] <= LOAD_FACTOR * share + LOAD_SLACK
        tickets.append(enter(pool, number))
        if ends:
            pool.settle(tickets.pop(0), None, 0.0)
    assert sum(pool.in_flight) == len(tickets)


def test_a_pinned_conversation_stays_at_a_busy_member_and_others_do_not() -> None:
    pool = Pool("p", [Member("a", "a"), Member("b", "b")])
    home = choose(pool, CONVERSATIONS[0])
    for _ in range(40):
        enter(pool, home)
    assert choose(pool, CONVERSATIONS[0]) == 1 - home
    assert choose(pool, CONVERSATIONS[0], is_pinned=True) == home
    assert pool.note_answer(CONVERSATIONS[0], 1 - home)
    assert choose(pool, CONVERSATIONS[0], is_pinned=True) == 1 - home, "its state was made there"
    assert not pool.note_answer(CONVERSATIONS[0], home)
    assert choose(pool, CONVERSATIONS[0], is_pinned=True) == home


_OUTCOMES: list[Any] = [
    None,
    *(error(kind) for kind in ("rate_limit", "authentication", "billing", "not_found", "server", "bad_request")),
    TransportError("reset", "reset"),
    "leave",
    "stream",
]


@given(_members(), st.lists(st.tuples(st.integers(0, 5), st.sampled_from(_OUTCOMES), st.floats(0, 40)), max_size=60))
def test_calls_in_flight_are_counted_exactly_and_a_pool_always_recovers(
    members: list[Member], steps: list[tuple[int, Any, float]]
) -> None:
    pool, now = Pool("p", members, failures=2, rest=20.0), 0.0
    open_tickets: list[PoolTicket] = []
    for which, outcome, seconds in steps:
        now += seconds
        choice = pool.choose(Turn(CONVERSATIONS[which], "m"), now, no_random)
        if choice is not None:
            ticket = pool.enter(choice.member, "m", now)
            assert ticket is not None, "the chosen member may be called"
            open_tickets.append(ticket)
        elif not open_tickets:
            assert pool.wait(now) > 0
        if not open_tickets:
            continue
        ticket = open_tickets.pop(which % len(open_tickets))
        for _ in range(2):  # a second report has no effect
            if outcome == "leave":
                pool.leave(ticket)
            elif outcome == "stream":
                pool.on_stream_start(ticket)
                pool.settle(ticket, None, now)
            else:
                pool.settle(ticket, outcome, now)
        assert sum(pool.in_flight) == len(open_tickets)
        assert min(pool.in_flight) >= 0
    for ticket in open_tickets:
        pool.leave(ticket)
    assert pool.in_flight == [0] * len(members)
    now += 10_000
    for _ in members:
        assert {pool.choose(Turn(None, "m"), now, Random(n).random) for n in range(20)} != {None}


# Cool-downs


def limited(pool: Pool, number: int = 0, now: float = 0.0, **report: Any) -> float:
    pool.settle(enter(pool, number, now), error(), now, **report)
    return pool.wait(now)


def test_cool_downs_without_a_time_double_and_start_again_after_a_success() -> None:
    pool, now, waits = Pool("p", [Member("a", "a")]), 0.0, []
    for _ in range(8):
        waits.append(limited(pool, now=now))
        now += waits[-1]
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    pool.settle(enter(pool, 0, now), None, now)
    assert limited(pool, now=now) == 5


def test_concurrent_replies_count_as_one_and_the_latest_end_stays() -> None:
    pool = Pool("p", [Member("a", "a", group="g"), Member("b", "b", group="g")])
    tickets = [enter(pool, number % 2) for number in range(6)]
    for ticket, named in zip(tickets, [None, 70.0, 3.0, None, 0.0, None], strict=True):
        pool.settle(ticket, error(), 1.0, named=named)
    assert pool.wait(1.0) == 70
    assert limited(pool, now=71.0) == 10, "the second cool-down, not the seventh"


@given(st.floats(0, 1, exclude_max=True), st.floats(0.1, 1000))
def test_jitter_never_shortens_the_time_that_an_upstream_names(random: float, named: float) -> None:
    wait = limited(Pool("p", [Member("a", "a")]), named=named, random=random)
    assert named <= wait <= named * (1 + JITTER)


def test_a_conversation_waits_a_few_seconds_for_its_member_and_others_do_not() -> None:
    pool = Pool("p", [Member("a", "a"), Member("b", "b")])
    home = choose(pool, CONVERSATIONS[0])
    limited(pool, home, named=4.0)
    assert pool.choose(Turn(CONVERSATIONS[0]), 0.0, lambda: 0.0) == MemberChoice(home, 4.0)
    assert pool.choose(Turn(CONVERSATIONS[0]), 0.0, lambda: 0.5) == MemberChoice(home, 6.0)
    assert pool.choose(Turn(CONVERSATIONS[0]), 0.0, lambda: 0.5, patience=5.0) == MemberChoice(home, 5.0)
    assert pool.choose(Turn(CONVERSATIONS[0]), 0.0, no_random, patience=3.9) == MemberChoice(1 - home)
    assert pool.choose(Turn(None), 0.0, Random(1).random) == MemberChoice(1 - home)
    assert pool.choose(Turn(CONVERSATIONS[0]), 4.0, no_random) == MemberChoice(home)


def test_a_conversation_does_not_wait_for_a_guessed_time_or_a_member_that_is_down() -> None:
    pool = Pool("p", [Member("a", "a"), Member("b", "b")], failures=1)
    home = choose(pool, CONVERSATIONS[0])
    limited(pool, home)
    assert choose(pool, CONVERSATIONS[0]) == 1 - home
    other = Pool("p", pool.members, failures=1)
    down = enter(other, home)
    limited(other, home, named=4.0)
    other.settle(down, error("server"), 0.0)
    assert choose(other, CONVERSATIONS[0]) == 1 - home


def test_one_request_tries_a_group_whose_time_is_over() -> None:
    pool = Pool("p", [Member("a", "a", group="g"), Member("b", "b", group="g")])
    assert limited(pool) == 5
    trial = enter(pool, 1, 5.0)
    assert pool.choose(Turn(None), 5.0, Random(1).random) is None
    assert pool.enter(0, "m", 5.0) is None
    pool.on_stream_start(trial)
    assert pool.enter(0, "m", 5.0) is not None


def test_everyone_may_return_at_a_time_that_the_upstream_named() -> None:
    pool = Pool("p", [Member("a", "a")])
    limited(pool, named=30.0)
    assert pool.enter(0, "m", 29.9) is None
    for _ in range(3):
        enter(pool, 0, 30.0)


@pytest.mark.parametrize("end", ["leave", "lost", "broken"])
def test_a_trial_without_a_result_is_followed_by_another(end: str) -> None:
    pool, now = Pool("p", [Member("a", "a")]), 5.0
    limited(pool)
    trial = enter(pool, 0, now)
    if end == "leave":
        pool.leave(trial)
    elif end == "broken":
        pool.settle(trial, TransportError("reset", "reset"), now)
    else:
        assert pool.enter(0, "m", now + TRIAL_SECONDS - 1) is None
        now += TRIAL_SECONDS
    assert pool.enter(0, "m", now) is not None


def test_clients_that_invent_model_names_fill_no_memory() -> None:
    pool = Pool("p", [Member("a", "a"), Member("b", "b")])
    limited(pool, 1)
    for number in range(3000):
        pool.settle(enter(pool, 0, model=f"model {number}"), error("not_found"), 0.0)
    assert len(pool._cooldowns) <= 1000
    assert pool.wait(0.0) == 5, "limits are not forgotten"


def test_a_ticket_of_a_breaker_counts_once() -> None:
    pool = Pool("p", [Member("a", "a")], failures=2, rest=10.0)
    ticket = enter(pool, 0)
    assert isinstance(ticket, Ticket)
    for _ in range(3):
        pool.settle(ticket, error("server"), 0.0)
    assert pool.wait(0.0) == 0


_NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("reset", "remaining", "retry_after", "expected"),
    [
        ("6m0s", "0", None, 360),
        ("120ms", "0", None, 0.12),
        ("1h0m2.5s", "0", 7.0, 3602.5),
        ("17", "0", 30.0, 30),
        ("2027-01-15T08:00:42Z", "0", None, 42),
        ("2027-01-15T07:00:00Z", "0", None, 0),
        ("6m0s", "12", None, None),
        ("6m0s", None, 2.0, 2),
        ("soon", "0", None, None),
        ("9" * 30, "0", 1.0, 1),
        (None, "0", None, None),
    ],
)
def test_the_reset_of_an_exhausted_limit_is_read_in_every_form(
    reset: str | None, remaining: str | None, retry_after: float | None, expected: float | None
) -> None:
    limits = (RateLimit("tokens", "100", remaining, reset), RateLimit("requests", "9", "5", "9h"))
    assert reset_delay(error(limits=limits, retry_after=retry_after), _NOW) == expected
