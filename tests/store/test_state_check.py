"""What the store tells at a glance, however and by whomever it is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from toolglot.store import StoredState
from toolglot.store.sqlite import SqliteStore


def _state(owner: str = "me", issuer: str = "it") -> StoredState:
    return StoredState(owner=owner, issuer=issuer, calls="c", hash="h", value=b"[]")


def test_a_store_without_states_says_so_and_one_with_a_state_says_whose(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "store.sqlite3")
        assert not store.may_have_states("me", "it")
        await store.keep_state(_state())
        assert store.may_have_states("me", "it")
        assert not store.may_have_states("me", "another")
        assert not store.may_have_states("you", "it")
        await store.close()

    asyncio.run(run())


def test_what_another_process_has_written_is_seen_at_once(tmp_path: Path) -> None:
    """Another connection is another process to SQLite."""

    async def run() -> None:
        one, other = SqliteStore(tmp_path / "store.sqlite3"), SqliteStore(tmp_path / "store.sqlite3")
        for number in range(20):
            issuer = f"issuer {number}"
            assert not one.may_have_states("me", issuer)
            await other.keep_state(_state(issuer=issuer))
            assert one.may_have_states("me", issuer)
        await one.close()
        await other.close()

    asyncio.run(run())


def test_a_store_that_cannot_be_glanced_at_may_have_everything(tmp_path: Path) -> None:
    async def run() -> None:
        memory = SqliteStore(":memory:")
        assert memory.may_have_states("me", "it")
        await memory.close()
        store = SqliteStore(tmp_path / "store.sqlite3")
        await store.close()
        assert store.may_have_states("me", "it")

    asyncio.run(run())
