"""Another process holds the store's file: nobody waits for long, and nobody waits for somebody else's waiting."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from tests.store.turns import turn, using
from tests.waiting import FAILSAFE
from toolglot.store import StoreError
from toolglot.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@contextmanager
def held(path: Path) -> Iterator[sqlite3.Connection]:
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield other
    finally:
        other.close()


async def refused(store: SqliteStore, name: str) -> str:
    with pytest.raises(StoreError) as raised:
        await store.save(turn(name))
    return raised.value.failure


def test_calls_wait_beside_each_other_and_not_one_after_another(path: Path) -> None:
    async def work(store: SqliteStore) -> float:
        with held(path):
            began = monotonic()
            assert set(await asyncio.gather(*(refused(store, f"resp_{n}") for n in range(10)))) == {"locked"}
            return monotonic() - began

    assert 2.0 <= using(path, work, busy_timeout=2.0) < 15, "ten times as long otherwise"


def test_once_the_file_was_not_free_in_time_nobody_waits_for_it(path: Path) -> None:
    async def work(store: SqliteStore) -> float:
        with held(path):
            assert await refused(store, "resp_0") == "locked"
            assert await store.turn("me", "resp_0") is None, "reading goes on, which does not mean that writing does"
            began = monotonic()
            for number in range(1, 20):
                assert await refused(store, f"resp_{number}") == "locked"
            took = monotonic() - began
        await store.save(turn("resp_20"))
        assert await store.turn("me", "resp_20") == turn("resp_20")
        return took

    assert using(path, work, busy_timeout=2.0) < 15, "nineteen times as long otherwise"


def test_whoever_reads_does_not_wait_for_whoever_waits_to_write(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"))
        with held(path) as other:
            saving = asyncio.create_task(store.save(turn("resp_2")))
            await asyncio.sleep(0)
            async with asyncio.timeout(FAILSAFE):
                assert await store.turn("me", "resp_1") == turn("resp_1")
                assert not saving.done()
                other.execute("ROLLBACK")
                await saving
        assert await store.turn("me", "resp_2") == turn("resp_2")

    using(path, work, busy_timeout=FAILSAFE)


def test_what_waits_to_be_written_is_written_although_its_caller_left_and_the_store_is_closed(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        with held(path) as other:
            saving = asyncio.create_task(store.save(turn("resp_1")))
            await asyncio.sleep(0)
            saving.cancel()
            assert await store.turn("me", "resp_1") is None
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
            await closing

    using(path, work, busy_timeout=FAILSAFE)
    assert using(path, lambda store: store.turn("me", "resp_1")) == turn("resp_1")
