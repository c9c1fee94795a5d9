"""What an upstream wants back of a conversation is kept for its owner, in bounds, and forgotten with the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.turns import Clock, turn, using
from toolglot.store import Replay
from toolglot.store.sqlite import SqliteStore
from toolglot.store.tables import MAX_REPLAYS

URL = "https://warp.example"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


def replay(name: str, *, owner: str = "me", conversation: str = "c", value: bytes = b"{}", url: str = URL) -> Replay:
    return Replay(owner=owner, upstream=url, hash=name, conversation=conversation, value=value)


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
