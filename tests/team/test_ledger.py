"""The ledger: whatever fails or is killed, the database has each answer once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.team.places import Place
from toolglot.store import StoreError
from toolglot.team import sql
from toolglot.team.counters import LocalCounters
from toolglot.team.database import SqliteDatabase, TeamDatabase
from toolglot.team.ledger import Ledger, Spool
from toolglot.team.limits import day_of
from toolglot.team.sql import Operation, UsageRow

T = TypeVar("T")
NOW = 1_800_000_000.0


def row(number: int, key: str = "k", nano_usd: int | None = 7) -> UsageRow:
    return UsageRow(
        request_id=f"r{number}",
        attempt=1,
        key_id=key,
        at=number,
        day=day_of(NOW),
        upstream="u",
        model="m",
        fresh_tokens=3,
        cached_tokens=2,
        output_tokens=1,
        nano_usd=nano_usd,
    )


class FailingDatabase:
    """A real database that fails when it is told to: before it does anything, or when everything is done."""

    def __init__(self, inner: TeamDatabase) -> None:
        self._inner = inner
        self.failure: str | None = None

    async def run(self, begin: Callable[[], Operation[T]], *, writes: bool = True) -> T:
        failure, self.failure = self.failure, None
        if failure == "before":
            raise StoreError("failed", "away")
        result = await self._inner.run(begin, writes=writes)
        if failure == "after":  # it was done, but the caller does not learn of it
            raise StoreError("failed", "away")
        return result

    async def close(self) -> None:
        await self._inner.close()


async def totals(database: TeamDatabase) -> tuple[int, int]:
    """Answers and nano-USD, by the sums and by the rows, which must agree."""
    rows = await database.run(partial(sql.report_spend, "0000", "9999", ()), writes=False)
    sums = (rows[0].requests, rows[0].nano_usd) if rows else (0, 0)

    def count() -> Operation[tuple[int, int]]:
        found = yield "SELECT count(*), coalesce(sum(nano_usd), 0) FROM usage", ()
        return int(found[0][0]), int(found[0][1])

    assert await database.run(count, writes=False) == sums
    return sums


STEPS = st.lists(st.sampled_from(["add", "flush", "before", "after", "crash", "adopt"]), max_size=30)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_spend_is_the_sum_of_all_answers_after_any_order_of_failures_and_crashes(
    place: Place, steps: list[str]
) -> None:
    def clear() -> Operation[None]:
        for table in ("usage", "spend"):
            yield f"DELETE FROM {table}", ()

    async def work(folder: Path) -> None:
        database = await place.open()
        await database.run(clear)
        failing = FailingDatabase(database)
        ledger, added = Ledger(failing, LocalCounters(), folder / "spool", lambda: NOW), 0
        for step in steps:
            try:
                if step == "add":
                    added += 1
                    ledger.add([row(added)])
                elif step in ("before", "after"):
                    failing.failure = step
                elif step == "flush":
                    await ledger.flush()
                elif step == "adopt":
                    await ledger.adopt()
                else:  # the process is gone: what it held in memory, and its lock
                    ledger._spool._file.close()
                    ledger = Ledger(failing, LocalCounters(), folder / "spool", lambda: NOW)
            except StoreError:
                pass
        failing.failure = None
        await ledger.adopt()
        await ledger.close()
        assert await totals(database) == (added, 7 * added)
        assert list((folder / "spool").iterdir()) == []
        await database.close()

    with TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder)))


KILLED = """
import sys, time
from pathlib import Path
from tests.team.test_ledger import row
from toolglot.team.counters import LocalCounters
from toolglot.team.ledger import Ledger
ledger = Ledger(None, LocalCounters(), Path(sys.argv[1]) / "spool")
for number in range(100):
    ledger.add([row(number)])
print("added", flush=True)
time.sleep(600)
"""


def test_a_killed_process_loses_nothing_and_a_living_one_keeps_its_file(place: Place, tmp_path: Path) -> None:
    async def adopted() -> tuple[int, int]:
        database = await place.open()
        ledger = Ledger(database, LocalCounters(), tmp_path / "spool")
        await ledger.adopt()
        found = await totals(database)
        await ledger.close()
        await database.close()
        return found

    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"added\n"
        assert asyncio.run(adopted()) == (0, 0)
        process.send_signal(signal.SIGKILL)
    assert asyncio.run(adopted()) == (100, 700)


def test_a_row_that_was_cut_off_is_dropped_and_the_others_are_saved(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> tuple[int, int]:
        database = await place.open()
        ledger = Ledger(database, LocalCounters(), tmp_path / "spool")
        ledger.add([row(1), row(2)])
        ledger._spool._file.close()
        (path,) = (tmp_path / "spool").iterdir()
        os.truncate(path, path.stat().st_size - 5)
        other = Ledger(database, LocalCounters(), tmp_path / "spool")
        await other.adopt()
        found = await totals(database)
        await other.close()
        await database.close()
        return found

    assert asyncio.run(work()) == (1, 7)
    assert "incomplete row" in caplog.text


def test_a_large_spool_is_replaced_by_the_next_and_loses_nothing(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolglot.team.ledger.MOST_BYTES", 100)

    async def work() -> tuple[int, int]:
        database = await place.open()
        ledger = Ledger(database, LocalCounters(), tmp_path / "spool")
        for number in range(20):
            ledger.add([row(number)])
            if number % 3 == 0:
                await ledger.flush()
        assert len(list((tmp_path / "spool").iterdir())) == 1
        await ledger.close()
        found = await totals(database)
        await database.close()
        return found

    assert asyncio.run(work()) == (20, 140)


def test_unknown_costs_are_counted_and_not_taken_for_zero(place: Place, tmp_path: Path) -> None:
    async def work() -> list[sql.SpendRow]:
        database = await place.open()
        await database.run(partial(sql.record_usage, [row(1, "a"), row(2, "a", None), row(3, "b")]))
        found = await database.run(partial(sql.report_spend, "0000", "9999", ("key",)), writes=False)
        await database.close()
        return found

    assert [(each.key, each.requests, each.nano_usd, each.unpriced) for each in asyncio.run(work())] == [
        ("a", 2, 7, 1),
        ("b", 1, 7, 0),
    ]


def test_names_that_a_client_invents_never_hold_up_the_usage_of_others(place: Place) -> None:
    """PostgreSQL refuses texts with a NUL. A row that cannot be saved would be tried again for ever."""

    async def work() -> tuple[int, int]:
        database = await place.open()
        odd = replace(row(1), model="a\0b", upstream="\U0001f600'; --")
        await database.run(partial(sql.record_usage, [odd, row(2)]))
        found = await totals(database)
        await database.close()
        return found

    assert asyncio.run(work()) == (2, 14)


def remove_folder(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def block_folder(folder: Path) -> None:
    """A file in its place: no other spool file can be opened, also by root."""
    remove_folder(folder)
    folder.write_bytes(b"")


@pytest.mark.parametrize("damage", [remove_folder, block_folder])
def test_usage_is_saved_when_the_spool_folder_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("toolglot.team.ledger.MOST_BYTES", 100)
    monkeypatch.setattr("toolglot.team.ledger.FLUSH_SECONDS", 0.0)

    async def work() -> tuple[int, int]:
        database = SqliteDatabase(tmp_path / "team.sqlite3")
        ledger = Ledger(database, LocalCounters(), tmp_path / "spool")
        running = asyncio.create_task(ledger.run())
        ledger.add([row(1), row(2)])
        damage(tmp_path / "spool")
        for number in range(3, 11):
            ledger.add([row(number)])
            while not running.done():
                rows = await database.run(partial(sql.report_spend, "0000", "9999", ()), writes=False)
                if rows and rows[0].requests == number:
                    break
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await ledger.close()
        found = await totals(database)
        await database.close()
        return found

    assert asyncio.run(work()) == (10, 70)


def test_a_row_for_which_the_disk_has_no_room_does_not_spoil_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path)
    size = len(msgspec.json.encode(row(1))) + 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    spool.write([row(1)])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(OSError, match="No space left"):
            spool.write([row(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    spool.write([row(3)])
    spool._file.close()
    other = Spool(tmp_path)
    ((_, rows),) = other.adopt()
    other.close()
    assert [each.request_id for each in rows] == ["r1", "r3"]


def test_a_spool_file_that_another_process_removes_before_it_is_locked_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that starts takes an unlocked file for one that is left."""
    lock = fcntl.flock
    removed: list[Path] = []

    def remove_first(file: IO[bytes], operation: int) -> None:
        if not removed:
            removed.append(next(tmp_path.iterdir()))
            removed[0].unlink()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    spool = Spool(tmp_path)
    spool.write([row(1)])
    (path,) = tmp_path.iterdir()
    assert b"r1" in path.read_bytes()
    spool.clear()
    spool.close()


def test_a_row_that_no_database_can_take_does_not_keep_the_others_out(tmp_path: Path) -> None:
    async def work() -> tuple[int, int]:
        (tmp_path / "1-left.usage").write_bytes(
            msgspec.json.encode(row(1)).replace(b'"fresh_tokens":3', b'"fresh_tokens":' + b"9" * 30)
            + b"\n"
            + msgspec.json.encode(row(2))
            + b"\n"
        )
        database = SqliteDatabase(tmp_path / "team.sqlite3")
        ledger = Ledger(database, LocalCounters(), tmp_path)
        await ledger.adopt()
        found = await totals(database)
        await ledger.close()
        await database.close()
        return found

    assert asyncio.run(work()) == (1, 7)


@pytest.mark.parametrize("is_replaced", [False, True], ids=["deleted", "replaced"])
def test_usage_waits_when_the_file_of_the_database_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_replaced: bool
) -> None:
    """SQLite would go on writing to the file that has no name any more."""
    path = tmp_path / "team.sqlite3"

    async def work() -> tuple[int, int]:
        database = SqliteDatabase(path)
        ledger = Ledger(database, LocalCounters(), tmp_path / "spool")
        ledger.add([row(1)])
        for file in tmp_path.glob("team.sqlite3*"):
            file.unlink()
        if is_replaced:
            await SqliteDatabase(path).close()
        with pytest.raises(StoreError, match="deleted or replaced"):
            await ledger.flush()
        await ledger.close()
        await database.close()
        database = SqliteDatabase(path)
        ledger = Ledger(database, LocalCounters(), tmp_path / "spool")
        await ledger.adopt()
        found = await totals(database)
        await ledger.close()
        await database.close()
        return found

    assert asyncio.run(work()) == (1, 7)
    assert "usage is kept on disk until a gateway starts again" in caplog.text


def test_what_was_read_last_counts_while_the_database_is_away_with_what_is_not_saved(
    place: Place, tmp_path: Path
) -> None:
    async def work() -> tuple[int, int]:
        database = await place.open()
        failing, counters = FailingDatabase(database), LocalCounters()
        ledger = Ledger(failing, counters, tmp_path / "spool", lambda: NOW)
        ledger.add([row(1)])
        await ledger.flush()
        await ledger.load("k")
        counters.forget_idle()
        ledger.add([row(2)])
        failing.failure = "before"
        await ledger.load("k")
        away = counters.spent("k", day_of(NOW)).nano_usd
        await ledger.flush()
        counters._active.add("k")
        await ledger.flush()
        back = counters.spent("k", day_of(NOW)).nano_usd
        failing.failure = "before"
        with pytest.raises(StoreError):
            await ledger.load("unknown")
        await ledger.close()
        await database.close()
        return away, back

    assert asyncio.run(work()) == (14, 14)
