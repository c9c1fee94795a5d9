"""What was found out about models is remembered, for as long as it is good."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Literal

import pytest

from tests.store.turns import Clock, turn, using
from toolglot.store import StoreError, ToolVerdict
from toolglot.store.sqlite import SqliteStore
from toolglot.store.tables import MAX_VERDICTS

URL = "http://127.0.0.1:11434/v1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def verdict(
    model: str = "gemma:2b",
    tools: Literal["native", "text"] = "text",
    *,
    url: str = URL,
    found: float = 1_000_000.0,
    until: float = 2_000_000.0,
) -> ToolVerdict:
    return ToolVerdict(upstream=url, model=model, tools=tools, found=found, until=until)


def test_a_verdict_survives_a_restart_and_is_of_one_model_at_one_address(path: Path) -> None:
    using(path, lambda store: store.remember(verdict()), now=Clock())
    assert using(path, lambda store: store.verdict(URL, "gemma:2b"), now=Clock()) == verdict()
    assert using(path, lambda store: store.verdict(URL, "gemma:7b"), now=Clock()) is None
    assert using(path, lambda store: store.verdict("http://elsewhere/v1", "gemma:2b"), now=Clock()) is None


def test_a_later_verdict_takes_the_place_of_an_earlier_one(path: Path) -> None:
    async def work(store: SqliteStore) -> ToolVerdict | None:
        await store.remember(verdict(tools="text"))
        await store.remember(verdict(tools="native", found=1_000_001.0))
        return await store.verdict(URL, "gemma:2b")

    assert using(path, work, now=Clock()) == verdict(tools="native", found=1_000_001.0)


def test_a_verdict_is_forgotten_when_its_time_is_over(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.remember(verdict(until=clock.now + 10))
        clock.now += 9.9
        assert await store.verdict(URL, "gemma:2b") is not None
        clock.now += 0.1
        assert await store.verdict(URL, "gemma:2b") is None
        await store.remember(verdict("another"))

    using(path, work, now=clock)
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT model FROM verdicts").fetchall() == [("another",)]
    other.close()


def test_their_number_is_bounded_and_the_oldest_goes(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await asyncio.gather(
            *(store.remember(verdict(f"m{number}", found=float(number))) for number in range(MAX_VERDICTS + 3))
        )
        assert [await store.verdict(URL, f"m{number}") is None for number in range(5)] == [True] * 3 + [False] * 2

    using(path, work, now=Clock())


def test_verdicts_are_no_conversations_and_weigh_nothing(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"))
        before = await store.size()
        await store.remember(verdict())
        assert await store.size() == before

    using(path, work, now=Clock())


def test_a_file_of_the_version_before_gets_the_table_and_keeps_what_it_has(path: Path) -> None:
    using(path, lambda store: store.save(turn("resp_1")))
    with sqlite3.connect(path) as other:
        for table in ("verdicts", "replays", "rounds", "states", "approvals"):
            other.execute(f"DROP TABLE {table}")
        other.execute("PRAGMA user_version = 1")
    other.close()

    async def work(store: SqliteStore) -> None:
        assert await store.turn("me", "resp_1") is not None
        await store.remember(verdict())
        assert await store.verdict(URL, "gemma:2b") == verdict()

    using(path, work, now=Clock())


def test_a_store_that_cannot_be_written_says_so(path: Path) -> None:
    async def work(store: SqliteStore) -> str:
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreError) as raised:
                await store.remember(verdict())
        finally:
            other.close()
        return raised.value.failure

    assert using(path, work, busy_timeout=0.01) == "locked"
