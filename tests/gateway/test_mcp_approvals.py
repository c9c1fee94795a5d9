"""An approval request has one record, however late the store is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.store.test_locked import held
from tests.store.turns import using
from tests.upstream.bad_server import Gate
from toolglot.gateway.features import mcp_approvals
from toolglot.gateway.features.mcp_approvals import Approvals, PendingApprovals
from toolglot.store.sqlite import SqliteStore


@contextmanager
def hanging(store: SqliteStore, path: Path) -> Iterator[None]:
    """The disk hangs."""
    gate = Gate()
    store._worker.later(gate.wait_blocking)
    try:
        yield
    finally:
        gate.open()


def locked(store: SqliteStore, path: Path) -> AbstractContextManager[object]:
    """Another process writes."""
    return held(path)


def on_time(store: SqliteStore, path: Path) -> AbstractContextManager[object]:
    return nullcontext()


@pytest.mark.parametrize("problem", [on_time, hanging, locked])
def test_an_approval_counts_once_although_the_store_is_late_or_fails(
    problem: Callable[[SqliteStore, Path], AbstractContextManager[object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_approvals, "STORE_TIMEOUT", 0.01)
    path = tmp_path / "store.sqlite3"
    pending = PendingApprovals()

    async def work(store: SqliteStore) -> list[bool]:
        approvals = Approvals(pending, store, None, "me")
        with problem(store, path):
            await approvals.issue("it")
            if problem is locked:
                await asyncio.gather(*pending.storing)
        await asyncio.gather(*pending.storing)
        monkeypatch.setattr(mcp_approvals, "STORE_TIMEOUT", 60)
        return [await approvals.redeem("it") for _ in range(3)]

    assert using(path, work, busy_timeout=0.05) == [True, False, False]
