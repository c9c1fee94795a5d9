"""Counts of keys that all gateways share, in Redis or Valkey: the contract of `LocalCounters`, in one round trip.

While Redis is away, each gateway counts alone and allows its share of a rate (`share_of`). Budgets stay whole: each
gateway reads the spend of all from the database every second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from time import time
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from toolglot.team.background import repeat
from toolglot.team.counters import Demand, Exceeded, Hold, LocalCounters, Spent, exceeded_budget
from toolglot.team.keys import KeyLimits
from toolglot.team.redis_client import RedisConnection, RedisError, Reply, connect
from toolglot.team.redis_scripts import BEAT, CHECK, INSTANCES, REBASE, RENEW, RESERVE, SCRIPTS, SETTLE, SPENT, Script

log = logging.getLogger("toolglot.server")

TIMEOUT = 0.25
"""Seconds that a request waits for Redis, once: then Redis is away until it answers again."""
BEAT_SECONDS = 0.4
REMEMBERED_BEATS = 25
LEASE_SECONDS = 12.0
"""Seconds after which what a killed gateway has held is free again. Living ones renew their leases."""
PREFIX = "toolglot:"

Load = Callable[[str, str], Awaitable[Mapping[str, Spent]]]
"""Reads what a key has spent on a day and in its month. Raises `StoreError`."""


class SharedHold(Hold):
    """A hold that Redis knows by `id`. `record` is as it is stored there."""

    id: str = ""
    record: str = ""


class _Settlement(Struct):
    arguments: tuple[str | int, ...]
    until: float
    """After that, the lease has ended, and the ledger has what was used."""


class SharedCounters:
    """`clock`: for tests; by default Redis' own."""

    def __init__(
        self,
        url: str,
        load: Load,
        local: LocalCounters,
        *,
        lease: float = LEASE_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._url = url
        self._load = load
        self._local = local
        self._lease = lease
        self._clock = clock
        self._instance = token_hex(8)
        self._numbers = iter(range(2**62))
        self._connection: RedisConnection | None = None
        self._holds: dict[str, SharedHold] = {}
        self._unsettled: dict[str, _Settlement] = {}
        self._active: set[str] = set()
        self._renewed = 0.0
        self._seen = deque([1], maxlen=REMEMBERED_BEATS)
        self.is_away = False
        self.count_local: Callable[[], object] = int
        """Called for each request that is counted locally."""

    # Requests

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def instances(self) -> int:
        """Gateways that were alive when Redis was there. It may have forgotten them since."""
        return max(self._seen)

    async def reserve(self, demand: Demand) -> SharedHold | Exceeded | None:
        """Check all limits, then reserve from all of them. Returns None if Redis is away. Raises `StoreError`."""
        self._active.add(demand.key)
        limits, hold = demand.limits, f"{self._instance}-{next(self._numbers)}"
        arguments: list[str | int] = [hold, demand.tokens, demand.nano_usd, round(self._lease * 1e6)]
        arguments += ["" if amount is None else amount for amount in _amounts_of(limits)]
        try:
            reply = await self._run(RESERVE, demand.key, *arguments, "")
            if reply[0] == "load":
                day = reply[1]
                spent = await self._load(demand.key, day)
                known = [amount for name in (day, day[:7]) for amount in spent.get(name, Spent(0, 0))]
                reply = await self._run(RESERVE, demand.key, *arguments, day, *known)
                if reply[0] == "load":  # midnight, just now
                    return await self.reserve(demand)
        except RedisError as error:
            self._lose(error)
            return None
        kind, now, amount, name = reply
        if kind == "held":
            day, month, *held = name.split()
            of_day, nano_day, of_month, nano_month = map(int, held)
            taken = SharedHold(
                demand, (day, month), int(amount), (of_day, of_month), (nano_day, nano_month), id=hold, record=name
            )
            self._holds[hold] = taken
            return taken
        if name:
            return exceeded_budget(kind, limits, name, int(now) / 1e6)
        return Exceeded(kind, getattr(limits, kind), int(amount) / 1e6)

    def has(self, hold: Hold) -> TypeGuard[SharedHold]:
        """Whether a hold was reserved here."""
        return isinstance(hold, SharedHold)

    async def check(self, hold: SharedHold, used: Spent, *, costs_money: bool) -> Exceeded | None:
        """Check before another call of the same request. While Redis is away, the call is allowed."""
        limits = hold.demand.limits
        budgets: list[str | int] = []
        for tokens, nano in (
            (limits.tokens_per_day, limits.nano_usd_per_day),
            (limits.tokens_per_month, limits.nano_usd_per_month),
        ):
            budgets += ["" if tokens is None else tokens, "" if nano is None or not costs_money else nano]
        try:
            kind, now = await self._run(CHECK, hold.demand.key, hold.record, used.tokens, used.nano_usd, *budgets)
        except RedisError as error:
            self._lose(error)
            return None
        if kind == "ok":
            return None
        return exceeded_budget(kind, limits, hold.windows["month" in kind], int(now) / 1e6)

    def settle(self, hold: SharedHold, used: Spent) -> None:
        """Replace a hold by what was used. A second call does nothing. It is sent before anything that this process
        sends later, and again if the connection breaks: it counts once."""
        if hold.is_settled:
            return
        hold.is_settled = True
        del self._holds[hold.id]
        limit = hold.demand.limits.tokens_per_minute
        rest = ("" if limit is None else limit, hold.minute_tokens, self._instance)
        self._active.add(hold.demand.key)
        arguments = (hold.demand.key, hold.id, used.tokens, used.nano_usd, *rest)
        self._unsettled[hold.id] = _Settlement(arguments, time() + self._lease)
        self._send_settlement(hold.id)

    def _send_settlement(self, hold: str) -> None:
        if self._connection is None or not self._connection.is_open:
            return
        key, *arguments = self._unsettled[hold].arguments
        future = self._connection.send(*self._command(SETTLE, str(key), *arguments))

        def finish(done: asyncio.Future[Reply]) -> None:
            if not done.cancelled() and done.exception() is None and isinstance(done.result(), int):
                self._unsettled.pop(hold, None)

        future.add_done_callback(finish)

    def share_of(self, limits: KeyLimits) -> KeyLimits:
        """This gateway's share of rates and requests at once, while it counts alone."""

        self.count_local()

        def share(amount: int | None) -> int | None:
            return amount and max(1, amount // self.instances)

        return replace(
            limits,
            requests_per_minute=share(limits.requests_per_minute),
            tokens_per_minute=share(limits.tokens_per_minute),
            concurrent_requests=share(limits.concurrent_requests),
        )

    async def spent(self, key: str, windows: tuple[str, ...]) -> list[Spent] | None:
        """What is spent and held in these windows, the first of which is a day; None if Redis is away. Raises
        `StoreError`."""
        known = await self._load(key, windows[0])  # before its first request, Redis knows nothing of a key
        try:
            found = [int(amount) for amount in await self._run(SPENT, key, *windows)]
        except RedisError:
            return None
        counted = {name: Spent(*found[2 * index : 2 * index + 2]) for index, name in enumerate(windows)}
        return [Spent(*map(max, counted[name], known.get(name, Spent(0, 0)))) for name in windows]

    # The ledger

    def take_active(self) -> list[str]:
        """The keys with requests since the last call."""
        active, self._active = list(self._active), set()
        return active

    async def rebase(self, key: str, spent: Mapping[str, Spent], unsaved: Mapping[str, Spent]) -> None:
        """Take over a key's sums of the database, which has the spend of all gateways, and what this one has not saved
        yet."""
        rows = ((name, *each, *unsaved.get(name, Spent(0, 0))) for name, each in spent.items())
        try:
            await self._run(REBASE, key, self._instance, *(part for row in rows for part in row))
        except RedisError as error:
            self._lose(error)

    # The connection

    async def run(self) -> None:
        """Keep the connection and the leases until cancelled."""
        failing = "the gateway cannot tell the others that it is alive"
        await repeat(self.beat, BEAT_SECONDS, failing=failing, working="the others know again that it is alive")

    async def beat(self) -> None:
        """Connect if necessary, say that this gateway is alive, and renew its leases."""
        try:
            await self._connect()
            beat = BEAT_SECONDS * 10
            (alive,) = await self._run(BEAT, None, round(beat * 1e6), self._instance)
            self._seen.append(int(alive))
            if time() - self._renewed > self._lease / 4:
                await self._renew()
        except RedisError as error:
            self._lose(error)

    async def _connect(self) -> None:
        if self._connection is not None and self._connection.is_open:
            return
        connection = await connect(self._url, TIMEOUT)
        for script in SCRIPTS:
            await connection.call(TIMEOUT, "SCRIPT", "LOAD", script.text)
        connection.when_lost = lambda: self._lose(RedisError("the connection was closed"))
        self._connection = connection
        now = time()
        self._unsettled = {hold: each for hold, each in self._unsettled.items() if each.until > now}
        for hold, settlement in self._unsettled.items():
            self._active.add(str(settlement.arguments[0]))
            self._send_settlement(hold)
        await self._renew()  # Redis may have lost its memory
        if self.is_away:
            log.info("the shared limits are back: Redis answers again")
        self.is_away = False
        self._local.forget_idle()  # what it knows will be outdated when it is needed again

    async def _renew(self) -> None:
        by_key: dict[str, list[str]] = {}
        for hold in self._holds.values():
            by_key.setdefault(hold.demand.key, []).extend((hold.id, hold.record))
        for key, holds in by_key.items():
            await self._run(RENEW, key, round(self._lease * 1e6), *holds)
        self._renewed = time()

    def _lose(self, error: RedisError) -> None:
        """Note that Redis is away, and log it once."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        if not self.is_away:
            log.warning(
                "Redis is away (%s): this gateway allows 1/%d of each rate until it is back", error, self.instances
            )
        self.is_away = True

    def _command(self, script: Script, key: str | None, *arguments: str | int) -> tuple[str | int, ...]:
        now = "" if self._clock is None else round(self._clock() * 1e6)
        prefix = INSTANCES if key is None else f"{PREFIX}{{{key}}}:"
        return ("EVALSHA", script.hash, 1, prefix, now, *arguments)

    async def _run(self, script: Script, key: str | None, *arguments: str | int) -> list[str]:
        """Run a script. Raises `RedisError`."""
        connection = self._connection
        if connection is None:
            raise RedisError("it is not connected")
        command = self._command(script, key, *arguments)
        try:
            reply = await connection.call(TIMEOUT, *command)
        except RedisError as error:
            if error.code != "NOSCRIPT":
                raise
            await connection.call(TIMEOUT, "SCRIPT", "LOAD", script.text)
            reply = await connection.call(TIMEOUT, *command)
        items = reply if isinstance(reply, list) else [reply]
        return [item.decode() if isinstance(item, bytes) else str(item) for item in items]

    async def close(self) -> None:
        """Send what is settled, and give up the connection."""
        if self.is_connected and self._unsettled:
            await self.beat()  # its reply comes after those of all settlements
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def _amounts_of(limits: KeyLimits) -> tuple[int | None, ...]:
    """In the order of the script's arguments."""
    return (
        limits.requests_per_minute,
        limits.tokens_per_minute,
        limits.concurrent_requests,
        limits.tokens_per_day,
        limits.nano_usd_per_day,
        limits.tokens_per_month,
        limits.nano_usd_per_month,
    )
