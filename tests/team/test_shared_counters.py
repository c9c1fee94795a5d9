"""Counters in Redis: exact for many gateways, and right again after whatever happens to one of them or to Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from tests.team.counting import InRedis
from tests.team.servers import Redis
from toolglot.team.counters import Demand, Exceeded, LocalCounters, Spent
from toolglot.team.keys import KeyLimits
from toolglot.team.limits import day_of, month_of
from toolglot.team.redis_client import IncompleteError, RedisError, connect, parse_reply
from toolglot.team.shared_counters import SharedCounters, SharedHold

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
DAY, MONTH = day_of(NOW), month_of(NOW)
MONEY = KeyLimits(nano_usd_per_day=1000)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def pair(redis: Redis, runner: asyncio.Runner) -> Iterator[tuple[InRedis, InRedis]]:
    """The counters of two gateways."""
    made = InRedis(redis, runner, lease=10), InRedis(redis, runner, lease=10)
    made[0].forget_all()
    made[1].ledger = made[0].ledger
    yield made
    for each in made:
        each.close()


def take(counters: InRedis, limits: KeyLimits, amount: int = 100, now: float = NOW) -> SharedHold:
    found = counters.reserve(Demand("k", limits, amount, amount), now)
    assert isinstance(found, SharedHold), found
    return found


def refusal(counters: InRedis, limits: KeyLimits, amount: int = 100, now: float = NOW) -> str:
    found = counters.reserve(Demand("k", limits, amount, amount), now)
    assert isinstance(found, Exceeded), found
    return found.limit


def test_days_and_months_are_those_of_the_calendar(pair: tuple[InRedis, InRedis]) -> None:
    begin = datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)
    for days in (*range(0, 800, 13), *range(800, 60_000, 997), 59, 60, 1520, 36584, 36585):
        at = (begin + timedelta(days=days)).timestamp()
        for moment in (at, at + 1):
            hold = take(pair[0], KeyLimits(), now=moment)
            assert hold.windows == (day_of(moment), month_of(moment))


@pytest.mark.parametrize(
    ("limits", "accepted"),
    [
        (KeyLimits(requests_per_minute=50), 50),
        (KeyLimits(tokens_per_minute=500), 50),
        (KeyLimits(concurrent_requests=50), 50),
        (KeyLimits(tokens_per_day=500), 50),
        (KeyLimits(nano_usd_per_month=500), 50),
    ],
    ids=lambda value: next(iter(value.__struct_fields__)) if isinstance(value, KeyLimits) else str(value),
)
def test_limits_of_many_gateways_are_one_limit(redis: Redis, limits: KeyLimits, accepted: int) -> None:
    """LiteLLM #40291, #27736: limits times replicas."""
    redis.query("FLUSHALL")

    async def load(key: str, day: str) -> Mapping[str, Spent]:
        return {}

    async def work() -> int:
        gateways = [SharedCounters(redis.url, load, LocalCounters(), clock=lambda: NOW) for _ in range(3)]
        for gateway in gateways:
            await gateway.beat()
        found = await asyncio.gather(*(each.reserve(Demand("k", limits, 10, 10)) for each in gateways * 40))
        for gateway in gateways:
            await gateway.close()
        assert None not in found
        return sum(isinstance(each, SharedHold) for each in found)

    assert asyncio.run(work()) == accepted


def test_a_settlement_frees_its_slot_before_the_next_reservation(pair: tuple[InRedis, InRedis]) -> None:
    """LiteLLM #27955: a client that sends one request after the other must never be refused for the one before."""
    counters, limits = pair[0], KeyLimits(concurrent_requests=1)

    async def work() -> None:
        counters.now = NOW
        for _ in range(50):
            hold = await counters.shared.reserve(Demand("k", limits, 1, 1))
            assert isinstance(hold, SharedHold)
            counters.shared.settle(hold, Spent(1, 1))

    counters.run(work())


def test_what_a_killed_gateway_held_is_free_after_its_lease(pair: tuple[InRedis, InRedis]) -> None:
    killed, other = pair
    limits = KeyLimits(concurrent_requests=2, nano_usd_per_day=250)
    take(killed, limits)
    take(killed, limits)
    assert refusal(other, limits, now=NOW + 9) == "concurrent_requests"
    hold = take(other, limits, now=NOW + 11)
    assert other.spent("k", DAY) == Spent(0, 100)
    other.settle(hold, Spent(0, 70))
    assert other.spent("k", DAY) == Spent(0, 70)


def test_a_living_gateway_keeps_what_it_holds(pair: tuple[InRedis, InRedis]) -> None:
    living, other = pair
    limits = KeyLimits(concurrent_requests=1)
    take(living, limits)
    for seconds in (8, 16, 24):
        living.now = NOW + seconds
        living.run(living.shared._renew())
        assert refusal(other, limits, now=NOW + seconds + 1) == "concurrent_requests"


def test_a_redis_that_has_lost_its_memory_gets_it_back(pair: tuple[InRedis, InRedis]) -> None:
    """What was settled comes from the ledger, what is held from the gateways."""
    first, second = pair
    limits = KeyLimits(concurrent_requests=2, nano_usd_per_day=1000)
    first.settle(take(first, limits, 600), Spent(600, 600))
    take(second, limits, 300)
    first.load("k", {DAY: Spent(600, 600), MONTH: Spent(600, 600)})
    first.server.query("FLUSHALL")
    second.run(second.shared._renew())
    hold = take(first, limits, 500)
    assert hold.nano_usd == (100, 0)
    assert refusal(second, limits) == "concurrent_requests"


def test_a_counter_is_the_ledgers_sum_and_what_is_not_saved(pair: tuple[InRedis, InRedis]) -> None:
    first, second = pair
    second.run(second.shared.beat())
    first.settle(take(first, MONEY, 300), Spent(300, 300))
    second.settle(take(second, MONEY, 40), Spent(40, 40))
    assert first.spent("k", DAY) == Spent(340, 340)
    saved = {DAY: Spent(900, 900), MONTH: Spent(900, 900)}  # with 500 of an outage, and 100 of 300
    first.rebase("k", saved, {DAY: Spent(200, 200), MONTH: Spent(200, 200)})
    assert second.spent("k", DAY) == Spent(1140, 1140)
    first.rebase("k", {DAY: Spent(1100, 1100), MONTH: Spent(1100, 1100)})
    assert second.spent("k", DAY) == Spent(1140, 1140)
    second.rebase("k", saved)  # read before the first one had saved
    assert first.spent("k", DAY) == Spent(1100, 1100)


def test_a_settlement_that_comes_after_its_usage_was_saved_is_corrected(pair: tuple[InRedis, InRedis]) -> None:
    counters = pair[0]
    hold = take(counters, MONEY)
    sums = {DAY: Spent(60, 60), MONTH: Spent(60, 60)}
    counters.rebase("k", sums)
    counters.settle(hold, Spent(60, 60))
    assert counters.shared.take_active() == ["k"]  # the next look at the ledger includes this key
    counters.rebase("k", sums)
    assert counters.spent("k", DAY) == Spent(60, 60)


def test_a_settlement_counts_once_although_the_connection_breaks(pair: tuple[InRedis, InRedis]) -> None:
    counters = pair[0]

    async def lose() -> None:
        assert counters.shared._connection is not None
        counters.shared._connection.abort()

    for is_sent in (True, False):
        hold = take(counters, MONEY)
        if not is_sent:
            counters.run(lose())
        counters.settle(hold, Spent(40, 40))
        counters.settle(hold, Spent(40, 40))
        if is_sent:
            counters.run(lose())
        counters.run(counters.shared.beat())
        counters.run(counters.shared.beat())
    assert counters.spent("k", DAY) == Spent(80, 80)
    assert counters.shared._unsettled == {}


def test_scripts_that_redis_has_forgotten_are_sent_again(pair: tuple[InRedis, InRedis]) -> None:
    pair[0].server.query("SCRIPT FLUSH")
    take(pair[0], MONEY)


@pytest.mark.parametrize("outage", ["stopped", "paused"])
def test_without_redis_a_gateway_is_told_at_once_and_counts_again_within_a_second(
    pair: tuple[InRedis, InRedis], redis: Redis, outage: str, caplog: pytest.LogCaptureFixture
) -> None:
    counters, limits = pair[0], KeyLimits(requests_per_minute=9, concurrent_requests=1, nano_usd_per_day=7)
    for each in pair * 2:
        each.run(each.shared.beat())
    pair[1].close()
    caplog.set_level(logging.INFO)

    with redis.stopped() if outage == "stopped" else redis.paused():
        started = monotonic()
        for _ in range(20):
            assert counters.run(counters.shared.reserve(Demand("k", limits, 1, 1))) is None
        assert monotonic() - started < 2  # the first one waits, the others do not
        assert not counters.shared.is_connected
        shares = KeyLimits(requests_per_minute=4, concurrent_requests=1, nano_usd_per_day=7)
        assert counters.shared.share_of(limits) == shares
    counters.run(counters.shared.beat())
    take(counters, limits, 1)
    messages = [record.getMessage() for record in caplog.records]
    assert len([each for each in messages if "Redis is away" in each]) == 1
    assert len([each for each in messages if "Redis answers again" in each]) == 1


def test_the_url_has_the_password_and_the_database(redis: Redis) -> None:
    redis.query("CONFIG SET requirepass s3cr/t")

    async def read(url: str) -> object:
        connection = await connect(url, 5)
        try:
            return await connection.call(5, "CLIENT", "INFO")
        finally:
            connection.abort()

    try:
        info = asyncio.run(read(f"redis://:s3cr%2Ft@127.0.0.1:{redis.port}/3"))
        assert isinstance(info, bytes)
        assert b" db=3 " in info
        for url in (redis.url, f"redis://:wrong@127.0.0.1:{redis.port}/0"):
            with pytest.raises(RedisError) as refused:
                asyncio.run(read(url))
            assert refused.value.code in ("NOAUTH", "WRONGPASS")
    finally:
        redis.query("AUTH s3cr/t\r\nCONFIG SET requirepass ''")


@pytest.mark.parametrize(
    "data",
    [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-5\r\n",
        b"$3\r\na\r\n\r\n",
        b"$-1\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        b"*0\r\n",
    ],
)
def test_a_reply_is_read_wherever_it_is_cut(data: bytes) -> None:
    whole, end = parse_reply(data)
    assert end == len(data)
    for cut in range(len(data)):
        with pytest.raises(IncompleteError):
            parse_reply(data[:cut])
    again, position = parse_reply(data + b"+next\r\n")
    assert (repr(again), position) == (repr(whole), end)
