"""What an upstream wants back of a conversation is kept for its owner, in bounds, and forgotten with the rest."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.store.turns import Clock, turn, using
from toolglot.store import StoredReplay
from toolglot.store import carried_state as kept_tables
from toolglot.store.carried_state import MAX_REPLAYS, MAX_SAME_CONTENT
from toolglot.store.schema import MIGRATIONS
from toolglot.store.sqlite import MEMORY, SqliteStore

URL = "https://warp.example"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def replay(
    name: str,
    *calls: str,
    owner: str = "me",
    conversation: str = "c",
    value: bytes = b"{}",
    url: str = URL,
) -> StoredReplay:
    return StoredReplay(owner=owner, upstream=url, hash=name, conversation=conversation, value=value, calls=calls)


def test_it_survives_a_restart_and_is_its_owners_at_one_address(path: Path) -> None:
    using(path, lambda store: store.keep_replay(replay("h", value=b"\x00opaque")))
    assert using(path, lambda store: store.replay("me", URL, ["h"])) == replay("h", value=b"\x00opaque")
    assert using(path, lambda store: store.replay("you", URL, ["h"])) is None
    assert using(path, lambda store: store.replay("me", "https://elsewhere", ["h"])) is None


def test_the_first_that_is_there_is_found(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.keep_replay(replay("a"))
        await store.keep_replay(replay("b"))
        assert await store.replay("me", URL, ["x", "b", "a"]) == replay("b")
        assert await store.replay("me", URL, []) is None

    using(path, work)


def test_the_same_again_takes_the_place_of_the_old_one(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for value in (b"old" * 1000, b"new"):
            await store.keep_replay(replay("a", value=value, conversation=value.decode()[:3]))
        assert await store.replay("me", URL, ["a"]) == replay("a", value=b"new", conversation="new")
        size = await store.size()
        assert (size.bytes < 1000, size.threads) == (True, 1)

    using(path, work)


def test_of_one_conversation_the_newest_few_are_kept(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for number in range(MAX_REPLAYS + 5):
            await store.keep_replay(replay(str(number)))
        await store.keep_replay(replay("other", conversation="other"))
        kept = [n for n in range(MAX_REPLAYS + 5) if await store.replay("me", URL, [str(n)])]
        assert kept == list(range(5, MAX_REPLAYS + 5))
        assert await store.replay("me", URL, ["other"]) is not None

    using(path, work)


def test_what_is_old_or_too_much_is_forgotten(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.keep_replay(replay("old", conversation="1"))
        clock.now += 101
        assert await store.replay("me", URL, ["old"]) is None
        await store.keep_replay(replay("a", conversation="2", value=b"x" * 6000))
        clock.now += 1
        assert (await store.size()).threads == 1
        await store.save(turn("resp_1", size=6000))
        assert await store.replay("me", URL, ["a"]) is None
        assert await store.turn("me", "resp_1") is not None

    using(path, work, now=clock, max_age=100.0, max_bytes=10_000)


@pytest.mark.parametrize("where", ["file", MEMORY])
def test_of_those_that_say_the_same_it_is_told_by_its_calls(where: str, path: Path) -> None:
    one, two, three = (replay("h", "a", f"b{n}", f"c{n}", conversation=f"{n}", value=b"%d" % n) for n in (1, 2, 3))

    async def work(store: SqliteStore) -> None:
        for kept in (one, two, three):
            await store.keep_replay(kept)
        for calls, expected in (
            ({"a", "b1", "c1"}, one),
            ({"a", "b2", "c2", "d"}, two),
            ({"c1"}, one),
            ({"b2", "c1", "c2"}, two),
            ({"a"}, three),  # all have it: the newest
            ({"x"}, three),  # none has it
            ((), three),
        ):
            assert await store.replay("me", URL, ["longer", "h"], calls) == expected
        await store.keep_replay(replay("longer", "a", "b9"))
        found = await store.replay("me", URL, ["longer", "h"], {"a", "b1", "c1"})
        assert found is not None
        assert found.hash == "longer"  # what tells more of the conversation comes first

    using(path if where == "file" else where, work)


def test_the_same_calls_again_take_the_place_of_the_old_ones(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for number, call in enumerate("abab"):
            await store.keep_replay(replay("h", call, conversation=str(number), value=b"x" * 1000))
        size = await store.size()
        assert (size.bytes < 3000, size.threads) == (True, 2)
        found = [await store.replay("me", URL, ["h"], {call}) for call in "ab"]
        assert [kept and kept.conversation for kept in found] == ["2", "3"]

    using(path, work)


def test_of_those_that_say_the_same_the_newest_few_are_kept(path: Path) -> None:
    async def work(store: SqliteStore) -> list[bool]:
        for number in range(MAX_SAME_CONTENT + 3):
            for owner in ("me", "you"):
                await store.keep_replay(replay("h", f"{number}", owner=owner, conversation=f"{number}"))
        await store.keep_replay(replay("other", "0", conversation="other"))
        assert (await store.size()).threads == 2 * MAX_SAME_CONTENT + 1
        found = [await store.replay("me", URL, ["h"], {f"{number}"}) for number in range(MAX_SAME_CONTENT + 3)]
        return [kept is not None and kept.calls == (f"{number}",) for number, kept in enumerate(found)]

    assert using(path, work) == [False] * 3 + [True] * MAX_SAME_CONTENT


def test_what_is_too_old_is_not_chosen_for_its_calls(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.keep_replay(replay("h", "a", conversation="1"))
        clock.now += 60
        await store.keep_replay(replay("h", "b", conversation="2"))
        assert await store.replay("me", URL, ["h"], {"a"}) == replay("h", "a", conversation="1")
        clock.now += 60
        assert await store.replay("me", URL, ["h"], {"a"}) == replay("h", "b", conversation="2")

    using(path, work, now=clock, max_age=100.0)


def test_two_stores_with_one_file_keep_each_others(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        other = SqliteStore(path)
        try:
            await store.keep_replay(replay("h", "a", conversation="1"))
            await other.keep_replay(replay("h", "b", conversation="2"))
            await store.keep_replay(replay("h", "b", conversation="3"))
            for reader in (store, other):
                assert await reader.replay("me", URL, ["h"], {"a"}) == replay("h", "a", conversation="1")
                assert await reader.replay("me", URL, ["h"], {"b"}) == replay("h", "b", conversation="3")
        finally:
            await other.close()

    using(path, work)


def test_which_one_it_is_can_be_told_without_reading_any_value(path: Path) -> None:
    """Values are large, and the calls stand behind them."""
    using(path, lambda store: store.size())
    asked: list[str] = []
    with sqlite3.connect(path) as other:
        other.set_trace_callback(asked.append)
        assert kept_tables.replay(other, 0.0, "me", URL, ["h"], {"a"}) is None
        other.set_trace_callback(None)
        (plan,) = [str(other.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()) for statement in asked]
    other.close()
    assert "COVERING INDEX replays_hash (hash=? AND owner=? AND upstream=?)" in plan


OLD = 3
"""The schema in which one was kept of those that say the same."""


def old_file(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for statement in (statement for statements in MIGRATIONS[:OLD] for statement in statements):
        other.execute(statement)
    other.execute(f"PRAGMA user_version = {OLD}")
    for name in ("a", "b"):
        other.execute("INSERT INTO threads (id, used) VALUES (?, ?)", (f"replay_{name}", Clock().now))
        row = (name, "me", URL, f"old-{name}", f"replay_{name}", b"\x00opaque", 1000)
        other.execute(
            "INSERT INTO replays (hash, owner, upstream, conversation, thread, value, bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    other.close()


def test_a_file_of_the_version_before_keeps_what_it_has(path: Path) -> None:
    old_file(path)
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        size = await store.size()
        assert (size.bytes, size.threads) == (2000, 2)
        for name in ("a", "b"):
            old = replay(name, conversation=f"old-{name}", value=b"\x00opaque")
            assert await store.replay("me", URL, [name], {"x"}) == old
        await store.keep_replay(replay("a", "x", conversation="new"))
        await store.keep_replay(replay("a", conversation="newest"))  # in the place of the old one
        assert await store.replay("me", URL, ["a"], {"x"}) == replay("a", "x", conversation="new")
        assert await store.replay("me", URL, ["a"]) == replay("a", conversation="newest")
        assert (await store.size()).threads == 3
        clock.now += 101
        await store.keep_replay(replay("c"))
        assert await store.replay("me", URL, ["b"]) is None

    using(path, work, now=clock, max_age=100.0)
    assert using(path, lambda store: store.replay("me", URL, ["c"]), now=clock) == replay("c")


def test_a_process_of_the_version_before_that_still_has_the_file_open_can_write(path: Path) -> None:
    """Files are migrated while others use them."""
    old_file(path)
    using(path, lambda store: store.keep_replay(replay("a", "x", conversation="new")), now=Clock())
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM replays WHERE hash = 'a'")
        other.execute(
            "INSERT INTO replays (hash, owner, upstream, conversation, thread, value, bytes) "
            "VALUES ('a', 'me', ?, 'theirs', 'replay_b', X'7B7D', 10)",
            (URL,),
        )
    other.close()
    found = using(path, lambda store: store.replay("me", URL, ["a"], {"x"}), now=Clock())
    assert found == replay("a", conversation="theirs")
