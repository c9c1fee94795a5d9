"""The embedded store, on real files."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.store.turns import Clock, turn, using
from tests.waiting import FAILSAFE
from toolglot.store import History, StoredConversation, StoredItem, StoreError, StoreSize, sqlite, tables, worker
from toolglot.store.sqlite import SqliteStore

LIMITS = {"max_bytes": 1 << 30, "max_turns": 10_000}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.sqlite3"


def test_a_turn_is_found_again_after_a_restart(path: Path) -> None:
    using(path, lambda store: store.save(turn("resp_1")))
    assert using(path, lambda store: store.turn("me", "resp_1")) == turn("resp_1")


def test_another_owner_finds_nothing(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"), output_ids=["msg_1"])
        await store.create_conversation(
            StoredConversation(id="conv_1", owner="me", created=1.0), [StoredItem("msg_1", b"{}")]
        )
        assert await store.turn("you", "resp_1") is None
        assert await store.history("you", "resp_1", **LIMITS) == History(missing="resp_1")
        assert await store.holders("you", ["msg_1"]) == {}
        assert not await store.delete_turn("you", "resp_1")
        assert await store.conversation("you", "conv_1") is None
        assert await store.conversation_history("you", "conv_1", max_bytes=99) == History(missing="conv_1")
        assert await store.page("you", "conv_1", after=None, limit=9, descending=False) is None
        assert await store.item("you", "conv_1", "msg_1") is None
        assert await store.add_items("you", "conv_1", [StoredItem("msg_2", b"{}")]) is None
        assert not await store.delete_item("you", "conv_1", "msg_1")
        assert not await store.update_conversation("you", "conv_1", b"{}")
        assert not await store.delete_conversation("you", "conv_1")
        assert await store.turn("me", "resp_1") == turn("resp_1")
        assert await store.item("me", "conv_1", "msg_1") == StoredItem("msg_1", b"{}")

    using(path, work)


def test_a_chain_of_two_hundred_turns_is_stored_once_and_read_in_order(path: Path) -> None:
    async def work(store: SqliteStore) -> tuple[History, int, int]:
        half = 0
        for number in range(200):
            if number == 100:
                half = (await store.size()).bytes
            previous = f"resp_{number - 1:03}" if number else None
            await store.save(turn(f"resp_{number:03}", previous, text="x" * 1000))
        return await store.history("me", "resp_199", **LIMITS), half, (await store.size()).bytes

    history, half, whole = using(path, work)
    assert [kept.id for kept in history.turns] == [f"resp_{number:03}" for number in range(200)]
    assert half * 1.9 < whole < half * 2.1


def test_a_history_that_is_too_long_is_not_read(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for number in range(5):
            await store.save(turn(f"resp_{number}", f"resp_{number - 1}" if number else None))
        assert (await store.history("me", "resp_4", max_bytes=1 << 20, max_turns=4)).too_large
        assert (await store.history("me", "resp_4", max_bytes=300, max_turns=5)).too_large
        assert len((await store.history("me", "resp_4", max_bytes=1 << 20, max_turns=5)).turns) == 5

    using(path, work)


def test_a_deleted_turn_is_gone_and_its_successors_say_what_they_miss(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"), output_ids=["msg_1"])
        await store.save(turn("resp_2", "resp_1"))
        assert await store.delete_turn("me", "resp_1")
        assert not await store.delete_turn("me", "resp_1")
        assert await store.turn("me", "resp_1") is None
        assert await store.holders("me", ["msg_1"]) == {}
        assert await store.history("me", "resp_2", **LIMITS) == History(missing="resp_1")

    using(path, work)


def test_an_empty_store_weighs_nothing_whatever_was_in_it(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"), output_ids=["msg_1"])
        await store.create_conversation(
            StoredConversation(id="conv_1", owner="me", created=1.0), [StoredItem("msg_1", b"{}")]
        )
        await store.update_conversation("me", "conv_1", b'{"a":"longer than before"}')
        await store.delete_turn("me", "resp_1")
        await store.delete_conversation("me", "conv_1")
        assert await store.size() == StoreSize(0, 0)

    using(path, work)


def test_the_newest_response_holds_an_item(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"), output_ids=["msg_1", "msg_2"])
        await store.save(turn("resp_2"), output_ids=["msg_1"])
        held = await store.holders("me", ["msg_1", "msg_2", "msg_3"])
        assert held == {"msg_1": turn("resp_2").response, "msg_2": turn("resp_1").response}

    using(path, work)


def test_the_threads_unused_the_longest_are_forgotten_as_a_whole_when_the_store_is_full(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        for name in ("a1", "b1", "c1"):
            clock.now += 1
            await store.save(turn(name, size=10_000))
        clock.now += 1
        await store.save(turn("a2", "a1", size=10_000))  # the oldest one is used again
        clock.now += 1
        await store.save(turn("d1", size=10_000))
        assert await store.turn("me", "b1") is None
        assert [kept.id for kept in (await store.history("me", "a2", **LIMITS)).turns] == ["a1", "a2"]
        assert await store.turn("me", "c1")
        assert await store.turn("me", "d1")
        assert (await store.size()).bytes <= 45_000

    using(path, work, max_bytes=45_000, now=clock)


def test_what_nobody_used_for_too_long_is_forgotten(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.save(turn("old"))
        await store.create_conversation(
            StoredConversation(id="conv_1", owner="me", created=1.0), [StoredItem("msg_1", b"{}")]
        )
        clock.now += 6000
        await store.save(turn("young"))
        clock.now += 5000
        assert await store.turn("me", "none") is None  # reading is enough, now and then
        while (await store.size()).threads > 1:
            pass
        assert await store.turn("me", "old") is None
        assert await store.conversation("me", "conv_1") is None
        assert await store.item("me", "conv_1", "msg_1") is None
        assert await store.turn("me", "young") == turn("young")

    using(path, work, max_age=10_000.0, now=clock)


def test_a_store_that_is_only_read_is_looked_through_once_an_hour(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.save(turn("old"))
        await store.size()
        clock.now += 3599
        for _ in range(3):
            assert (await store.size()).threads == 1
        clock.now += 1
        for _ in range(2):
            kept = (await store.size()).threads
        assert kept == 0

    using(path, work, max_age=100.0, now=clock)


def test_a_long_thread_is_forgotten_in_steps_between_which_others_have_their_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PRUNE_BATCH", 10)
    clock = Clock()
    release = threading.Event()

    async def work(store: SqliteStore) -> None:
        for number in range(35):
            await store.save(turn(f"resp_{number}", f"resp_{number - 1}" if number else None))
        clock.now += 10_000
        store._worker.later(partial(release.wait, 30))  # until all three wait
        waiting = [asyncio.create_task(store.size()) for _ in range(3)]
        await asyncio.sleep(0)
        release.set()
        whole, some, same = await asyncio.gather(*waiting)
        assert whole.bytes > some.bytes == same.bytes > 0
        while (await store.size()).bytes:
            pass

    using(path, work, max_age=100.0, now=clock)


def test_the_file_stays_near_its_limit_however_much_is_written(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for number in range(300):
            await store.save(turn(f"resp_{number}", size=20_000))
        assert (await store.size()).bytes <= 500_000

    using(path, work, max_bytes=500_000)
    assert path.stat().st_size < 2_000_000


def test_a_thread_may_not_outgrow_the_store_and_what_was_there_stays(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1", size=6_000))
        with pytest.raises(StoreError) as raised:
            await store.save(turn("resp_2", "resp_1", size=6_000))
        assert raised.value.failure == "full"
        assert await store.turn("me", "resp_1") == turn("resp_1", size=6_000)
        assert await store.turn("me", "resp_2") is None

    using(path, work, max_bytes=10_000)


def test_a_second_response_of_the_same_id_is_refused(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"))
        with pytest.raises(StoreError) as raised:
            await store.save(turn("resp_1", owner="you"))
        assert raised.value.failure == "duplicate"
        assert await store.turn("me", "resp_1") == turn("resp_1")

    using(path, work)


def test_a_full_disk_is_told_as_such_and_reading_goes_on(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("resp_1"))
        # Another process has filled the file: its pages count for everybody.
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE filler (data BLOB)")
            other.execute("INSERT INTO filler VALUES (zeroblob(8000000))")
        other.close()
        with pytest.raises(StoreError) as raised:
            await store.save(turn("resp_2", size=100_000))
        assert raised.value.failure == "full"
        assert await store.turn("me", "resp_1") == turn("resp_1")

    using(path, work, max_bytes=1_000_000)


def test_a_file_that_another_process_holds_is_told_as_such(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as raised:
            await store.save(turn("resp_1"))
        assert raised.value.failure == "locked"
        assert await store.turn("me", "resp_1") is None
        other.execute("ROLLBACK")
        other.close()
        await store.save(turn("resp_1"))
        assert await store.turn("me", "resp_1") == turn("resp_1")

    using(path, work, busy_timeout=0.01)


def test_an_error_never_repeats_what_was_to_be_stored(path: Path) -> None:
    async def work(store: SqliteStore) -> str:
        await store.save(turn("resp_secret"))
        with pytest.raises(StoreError) as raised:
            await store.save(turn("resp_secret", text="very private"))
        return str(raised.value)

    assert using(path, work) == "something with this id is stored already"


def test_many_tasks_at_once_use_one_thread_and_lose_nothing(path: Path) -> None:
    threads: set[str] = set()

    async def work(store: SqliteStore) -> None:
        await asyncio.gather(*(store.save(turn(f"resp_{number}")) for number in range(300)))
        threads.update(thread.name for thread in threading.enumerate())
        found = await asyncio.gather(*(store.turn("me", f"resp_{number}") for number in range(300)))
        assert [kept and kept.id for kept in found] == [f"resp_{number}" for number in range(300)]

    using(path, work)
    assert len([name for name in threads if name.startswith("toolglot-store")]) == 1


def test_stores_of_two_processes_share_a_file(path: Path) -> None:
    async def work(first: SqliteStore) -> None:
        second = SqliteStore(path)
        try:
            await asyncio.gather(
                *(store.save(turn(f"{name}_{n}")) for n in range(50) for name, store in (("a", first), ("b", second)))
            )
            assert await first.turn("me", "b_49")
            assert await second.turn("me", "a_49")
            assert await first.size() == await second.size()
        finally:
            await second.close()

    using(path, work)


def test_what_was_asked_for_is_done_although_the_one_who_waits_is_cancelled(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        saving = asyncio.create_task(store.save(turn("resp_1")))
        await asyncio.sleep(0)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert await store.turn("me", "resp_1") == turn("resp_1")

    using(path, work)


def test_too_many_waiting_calls_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_QUEUED", 3)
    release = threading.Event()

    async def work(store: SqliteStore) -> None:
        store._worker.later(partial(release.wait, 30))
        waiting = [asyncio.create_task(store.size()) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(StoreError) as raised:
            await store.size()
        assert raised.value.failure == "busy"
        release.set()
        assert await asyncio.gather(*waiting) == [StoreSize(0, 0)] * 3
        assert await store.size() == StoreSize(0, 0)

    using(path, work)


def test_closing_that_is_given_up_leaves_nothing_behind_that_fails(path: Path) -> None:
    release, failures = threading.Event(), list[object]()

    async def work(store: SqliteStore) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        store._worker.later(partial(release.wait, 30))
        waiting = [asyncio.create_task(store.save(turn("resp_1")))]
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(store.close()))
        await asyncio.sleep(0)
        waiting[1].cancel()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2
        release.set()
        await asyncio.to_thread(store._worker._thread.shutdown)
        await asyncio.sleep(0)  # what the thread has told the loop

    using(path, work)
    assert failures == []


def test_a_store_in_which_too_many_calls_wait_is_closed_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_QUEUED", 1)
    release = threading.Event()

    async def main() -> None:
        store = SqliteStore(path)
        store._worker.later(partial(release.wait, 30))
        saving = asyncio.create_task(store.save(turn("resp_1")))
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(saving, closing)
        with pytest.raises(StoreError) as raised:
            await store.turn("me", "resp_1")
        assert raised.value.failure == "closed"

    asyncio.run(main())
    assert using(path, lambda store: store.turn("me", "resp_1")) == turn("resp_1")


def _deleting(monkeypatch: pytest.MonkeyPatch, name: str, path: Path, statement: str) -> None:
    """Another process deletes something right after the first call of a function of the tables."""
    original = getattr(tables, name)

    def first(*arguments: object) -> object:
        monkeypatch.setattr(tables, name, original)
        result = original(*arguments)
        with sqlite3.connect(path) as other:
            other.execute(statement)
        other.close()
        return result

    monkeypatch.setattr(tables, name, first)


def test_what_another_process_deletes_in_the_middle_of_reading_is_still_there_to_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: SqliteStore) -> None:
        await store.save(turn("a"), output_ids=["msg_1"])
        await store.save(turn("b", "a"))
        _deleting(monkeypatch, "turn", path, "DELETE FROM responses WHERE id = 'a'")
        history = await store.history("me", "b", **LIMITS)
        assert [kept.id for kept in history.turns] == ["a", "b"]
        assert (await store.history("me", "b", **LIMITS)).missing == "a"
        await store.create_conversation(
            StoredConversation(id="conv_1", owner="me", created=1.0), [StoredItem("msg_1", b"{}")]
        )
        _deleting(monkeypatch, "conversation", path, "DELETE FROM conversations")
        found = await store.conversation_history("me", "conv_1", max_bytes=99)
        assert found == History(items=(StoredItem("msg_1", b"{}"),), next=1)
        assert (await store.conversation_history("me", "conv_1", max_bytes=99)).missing == "conv_1"

    using(path, work)


def test_a_closed_store_says_so(path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(path)
        await store.close()
        await store.close()
        with pytest.raises(StoreError) as raised:
            await store.turn("me", "resp_1")
        assert raised.value.failure == "closed"

    asyncio.run(main())


def test_one_store_serves_several_event_loops_in_turn(path: Path) -> None:
    store = SqliteStore(path)
    asyncio.run(store.save(turn("resp_1")))
    assert asyncio.run(store.turn("me", "resp_1")) == turn("resp_1")
    asyncio.run(store.close())


WRITER = """
import asyncio, sys
from tests.store.turns import turn
from toolglot.store.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    number = 0
    while True:
        await store.save(turn(f"resp_{number}", f"resp_{number - 1}" if number else None, size=5000))
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def test_everything_that_was_acknowledged_survives_kill_9(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(150)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.wait(timeout=FAILSAFE) == -signal.SIGKILL
    last = int([line for line in lines if line.endswith("\n")][-1])

    async def check(store: SqliteStore) -> None:
        history = await store.history("me", f"resp_{last}", **LIMITS)
        assert [kept.id for kept in history.turns] == [f"resp_{number}" for number in range(last + 1)]
        await store.save(turn("resp_after", f"resp_{last}"))

    using(path, check)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert (
        connection.execute("SELECT bytes FROM totals").fetchone()
        == connection.execute("SELECT sum(bytes) FROM responses").fetchone()
    )
    connection.close()


def test_a_store_is_closed_where_another_loop_ended_before_its_call_did(path: Path) -> None:
    release, store = threading.Event(), SqliteStore(path)

    async def half() -> None:
        store._worker.later(partial(release.wait, 30))
        task = asyncio.create_task(store.save(turn("resp_1")))
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(half())
    release.set()
    asyncio.run(store.close())
    assert using(path, lambda store: store.turn("me", "resp_1")) == turn("resp_1")
