from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.store.turns import Clock, using
from toolglot.ir import replace
from toolglot.store import StoredRounds, StoredState
from toolglot.store.carried_state import MAX_SAME_CONTENT
from toolglot.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def state(calls: str = "c", said: str = "h", **fields: Any) -> StoredState:
    return StoredState(owner="me", issuer="i", calls=calls, hash=said, value=fields.pop("value", b"[]"), **fields)


def test_it_survives_a_restart_and_is_its_owners_and_issuers_alone(path: Path) -> None:
    using(path, lambda store: store.keep_state(state()))
    assert using(path, lambda store: store.states("me", "i", ["c"])) == [state()]
    assert using(path, lambda store: store.states("you", "i", ["c"], ["h"])) == []
    assert using(path, lambda store: store.states("me", "j", ["c"], ["h"])) == []


def test_of_those_that_say_the_same_the_newest_is_found_by_it(path: Path) -> None:
    """A client that drops the ids of calls tells nothing else."""

    async def work(store: SqliteStore) -> None:
        await store.keep_state(state("c", "h"))
        assert await store.states("me", "i", [], ["h"]) == [state("c", "h")]
        await store.keep_state(state("", "h"))
        assert await store.states("me", "i", [], ["h"]) == [state("", "h")]
        assert await store.states("me", "i", ["c"], ["h"]) == [state("c", "h"), state("", "h")]
        await store.keep_state(state("d", "h"))
        assert await store.states("me", "i", [], ["h"]) == [state("d", "h")]
        assert await store.states("me", "i", ["d"], ["h"]) == [state("d", "h")]

    using(path, work)


def test_of_the_same_calls_the_newest_few_are_kept_the_newest_first(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for number in range(MAX_SAME_CONTENT + 3):
            await store.keep_state(state("c", str(number)))
        found = await store.states("me", "i", ["c"])
        assert [each.hash for each in found] == [str(number) for number in range(3, MAX_SAME_CONTENT + 3)][::-1]
        await store.keep_state(state("c", "5", value=b"[1]"))  # in the place of the old one
        found = await store.states("me", "i", ["c"])
        assert (found[0].value, len(found)) == (b"[1]", MAX_SAME_CONTENT)
        assert (await store.size()).threads == MAX_SAME_CONTENT

    using(path, work)


def test_what_is_old_or_too_much_is_forgotten(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.keep_state(state("old"))
        clock.now += 101
        assert await store.states("me", "i", ["old"]) == []
        large = state("large", value=b"x" * 6000)
        await store.keep_state(large)
        clock.now += 1
        await store.keep_state(replace(large, calls="larger"))
        assert await store.states("me", "i", ["large"]) == []
        assert len(await store.states("me", "i", ["larger"])) == 1
        assert (await store.size()).threads == 1

    using(path, work, now=clock, max_age=100.0, max_bytes=10_000)


def test_what_is_read_again_and_again_is_not_forgotten(path: Path) -> None:
    clock = Clock()

    async def work(store: SqliteStore) -> None:
        await store.keep_state(state("read"))
        await store.keep_state(state("unread"))
        await store.keep_rounds("me", StoredRounds("r", b"[]"))
        for _ in range(12):
            clock.now += 10
            assert await store.states("me", "i", ["read"]) == [state("read")]
            assert await store.rounds("me", ["r"]) == [StoredRounds("r", b"[]")]
        assert await store.states("me", "i", ["unread"]) == []

    using(path, work, now=clock, max_age=90.0)


def test_many_are_found_at_once(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for name in ("first", "last"):
            await store.keep_state(state(name))
        others = [f"other {number}" for number in range(2000)]
        found = await store.states("me", "i", ["first", *others, "last"], others)
        assert {each.calls for each in found} == {"first", "last"}

    using(path, work)


def test_one_request_reads_no_more_than_some(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.store.carried_state.MAX_READ_BYTES", 2500)

    async def work(store: SqliteStore) -> int:
        for name in "abcdef":
            await store.keep_state(state(name, value=b"x" * 1000))
        return len(await store.states("me", "i", list("abcdef")))

    assert using(path, work) == 3


def test_two_stores_with_one_file_find_each_others(path: Path) -> None:
    async def work(store: SqliteStore) -> list[StoredState]:
        other = SqliteStore(path)
        try:
            await other.keep_state(state())
            return await store.states("me", "i", ["c"])
        finally:
            await other.close()

    assert using(path, work) == [state()]
