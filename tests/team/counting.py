"""Counters of each kind behind one interface: each test of limits runs on every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.team.servers import Redis
from toolglot.team.counters import Demand, Exceeded, Hold, LocalCounters, Spent
from toolglot.team.file_counters import FileCounters
from toolglot.team.shared_counters import SharedCounters, SharedHold

T = TypeVar("T")
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()


class Counters(Protocol):
    """What is counted for API keys."""

    def forget_all(self) -> None: ...

    def load(self, key: str, spent: Mapping[str, Spent]) -> None: ...

    def reserve(self, demand: Demand, now: float) -> Hold | Exceeded: ...

    def check(self, hold: Hold, used: Spent, *, costs_money: bool, now: float) -> Exceeded | None: ...

    def settle(self, hold: Hold, used: Spent) -> None: ...

    def saved(self, key: str, window: str, tokens: int, nano_usd: int) -> None: ...

    def rebase(self, key: str, spent: Mapping[str, Spent]) -> None: ...

    def spent(self, key: str, window: str) -> Spent: ...


class InMemory(LocalCounters):
    def forget_all(self) -> None:
        self._keys.clear()


class InRedis:
    """The counters of one gateway, which knows the time by the test."""

    def __init__(self, server: Redis, runner: asyncio.Runner, **options: Any) -> None:
        self.server = server
        self.now = NOW
        self.ledger: dict[str, dict[str, Spent]] = {}
        self._runner = runner
        self.shared = SharedCounters(server.url, self._load, LocalCounters(), clock=lambda: self.now, **options)
        self.run(self.shared.beat())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _load(self, key: str, day: str) -> Mapping[str, Spent]:
        found = self.ledger.get(key, {})
        return {name: found.get(name, Spent(0, 0)) for name in (day, day[:7])}

    def forget_all(self) -> None:
        self.server.query("FLUSHALL")
        self.shared._holds.clear()
        self.shared._unsettled.clear()
        self.ledger.clear()
        self.run(self.shared.beat())

    def load(self, key: str, spent: Mapping[str, Spent]) -> None:
        self.ledger[key] = dict(spent)

    def reserve(self, demand: Demand, now: float) -> Hold | Exceeded:
        self._move_to(now)
        found = self.run(self.shared.reserve(demand))
        assert found is not None, "Redis is away"
        return found

    def check(self, hold: Hold, used: Spent, *, costs_money: bool, now: float) -> Exceeded | None:
        self._move_to(now)
        assert isinstance(hold, SharedHold)
        return self.run(self.shared.check(hold, used, costs_money=costs_money))

    def settle(self, hold: Hold, used: Spent) -> None:
        async def work() -> None:
            assert isinstance(hold, SharedHold)
            self.shared.settle(hold, used)

        self.run(work())

    def saved(self, key: str, window: str, tokens: int, nano_usd: int) -> None:
        """The ledger's sums are enough."""

    def rebase(self, key: str, spent: Mapping[str, Spent], unsaved: Mapping[str, Spent] = {}) -> None:
        self.ledger.setdefault(key, {}).update(spent)
        self.run(self.shared.rebase(key, spent, unsaved))

    def _move_to(self, now: float) -> None:
        """The gateway lives at that time."""
        if now != self.now:
            self.now = now
            self.run(self.shared.beat())

    def spent(self, key: str, window: str) -> Spent:
        windows = (window, window[:7]) if len(window) > 7 else (f"{window}-01", window)
        found = self.run(self.shared.spent(key, windows))
        assert found is not None, "Redis is away"
        return found[windows.index(window)]

    def close(self) -> None:
        self.run(self.shared.close())


@contextmanager
def in_memory(request: pytest.FixtureRequest, folder: Path) -> Iterator[Counters]:
    yield InMemory()


class InFile(FileCounters):
    def forget_all(self) -> None:
        self._connection.execute("DELETE FROM counts")
        self._unsettled.clear()


@contextmanager
def in_file(request: pytest.FixtureRequest, folder: Path) -> Iterator[Counters]:
    counters = InFile(folder / "counters")
    yield counters
    counters.close()


@contextmanager
def in_redis(request: pytest.FixtureRequest, folder: Path) -> Iterator[Counters]:
    with asyncio.Runner() as runner:
        counters = InRedis(request.getfixturevalue("redis"), runner, lease=1e5)
        counters.forget_all()
        yield counters
        counters.close()


COUNTERS: dict[str, Callable[[pytest.FixtureRequest, Path], AbstractContextManager[Counters]]] = {
    "memory": in_memory,
    "file": in_file,
    "redis": in_redis,
}
