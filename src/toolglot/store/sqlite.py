"""The embedded store: one SQLite file, and one thread that accesses it.

Calls wait in the thread's queue, in order: after a save has been confirmed, a read finds it. Several processes may
share the file. Stored data survives the process being killed at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from toolglot.store import (
    History,
    ItemPage,
    StoredConversation,
    StoredItem,
    StoredReplay,
    StoredRounds,
    StoredState,
    StoredTurn,
    StoreError,
    StoreSize,
    ToolVerdict,
    carried_state,
    tables,
)
from toolglot.store.failures import run_as_store_call
from toolglot.store.schema import prepare_database
from toolglot.store.worker import StoreWorker

MEMORY = ":memory:"
NO_STORE = "none"
"""The path that means no store."""

PRUNE_BATCH = 256
"""Number of rows deleted per call; other calls run in between."""

PRUNE_EVERY = 3600.0
"""Seconds after which a store that is only read is checked for expired data."""

OPEN_WAIT = 5.0
"""How long another process may hold the file when it is opened: it may be creating the tables."""

_SPARE_BYTES = 4 * 1024 * 1024
_PAGE = 4096
_FREE_PAGES = 1024
"""Empty pages in the file before some are returned to the disk."""

T = TypeVar("T")
P = ParamSpec("P")


def default_path(environment: Mapping[str, str], home: Path) -> Path:
    """Return the default path: the user's state folder, by the XDG specification."""
    given = environment.get("XDG_STATE_HOME", "")
    # The specification says to ignore a relative path.
    state = Path(given) if os.path.isabs(given) else home / ".local" / "state"
    return state / "toolglot" / "toolglot.sqlite3"


def _open(path: str, max_bytes: int) -> sqlite3.Connection:
    if path != MEMORY:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite gives its side files the permissions of the main one, which must therefore be private before it is
        # used.
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    # No statement opens a transaction implicitly. The thread that opens the file is not the one that uses it, and only
    # one thread ever does.
    connection = sqlite3.connect(path, timeout=OPEN_WAIT, isolation_level=None, check_same_thread=False)
    try:
        prepare_database(connection)
        # The file always stays within its limit: another 50% is reserved for indexes and half-empty pages.
        connection.execute(f"PRAGMA max_page_count = {(max_bytes * 3 // 2 + _SPARE_BYTES) // _PAGE}").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {_SPARE_BYTES}").fetchall()
        connection.execute("PRAGMA busy_timeout = 0").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteStore:
    """A `Store` in a file, or in memory (`:memory:`).

    Args:
        path: the file; its folder is created if necessary. max_bytes: the maximum size; beyond it, the least recently
        used threads are deleted. max_age: seconds after which an unused thread is deleted. now: the clock (Unix
        seconds). busy_timeout: seconds that a call waits while another process writes: an answer may wait for the call.

    Raises: StoreError: the file cannot be used; the message gives the reason.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int = 512 * 1024 * 1024,
        max_age: float = 30 * 24 * 3600.0,
        now: Callable[[], float] = time.time,
        busy_timeout: float = 1.0,
    ) -> None:
        self.path = str(path)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._now = now
        try:
            self._connection = run_as_store_call(lambda: _open(self.path, max_bytes))
        except StoreError as error:
            raise StoreError(error.failure, f"{self.path}: {error}") from None
        self._glance = StateCheck(self.path)
        self._worker = StoreWorker("toolglot-store", busy_timeout)
        self._pruning = False
        self._pruned = -inf
        self._touching: set[asyncio.Task[None]] = set()

    async def save(self, turn: StoredTurn, items: Sequence[StoredItem] = (), output_ids: Sequence[str] = ()) -> None:
        await self._grow(tables.save, self._now(), self._max_bytes, turn, items, output_ids)

    async def turn(self, owner: str, response: str) -> StoredTurn | None:
        return await self._read(tables.turn, owner, response)

    async def delete_turn(self, owner: str, response: str) -> bool:
        return await self._write(tables.delete_turn, owner, response)

    async def history(self, owner: str, response: str, *, max_bytes: int, max_turns: int) -> History:
        return await self._read(tables.history, owner, response, max_bytes, max_turns)

    async def holders(self, owner: str, items: Sequence[str]) -> Mapping[str, bytes]:
        return await self._read(tables.holders, owner, items)

    async def create_conversation(self, conversation: StoredConversation, items: Sequence[StoredItem] = ()) -> None:
        await self._grow(tables.create_conversation, self._now(), self._max_bytes, conversation, items)

    async def conversation(self, owner: str, conversation: str) -> StoredConversation | None:
        return await self._read(tables.conversation, owner, conversation)

    async def update_conversation(self, owner: str, conversation: str, metadata: bytes) -> bool:
        return await self._write(tables.update_conversation, owner, conversation, metadata)

    async def delete_conversation(self, owner: str, conversation: str) -> bool:
        return await self._write(tables.delete_conversation, owner, conversation)

    async def conversation_history(self, owner: str, conversation: str, *, max_bytes: int) -> History:
        return await self._read(tables.conversation_history, owner, conversation, max_bytes)

    async def add_items(
        self, owner: str, conversation: str, items: Sequence[StoredItem]
    ) -> tuple[StoredItem, ...] | None:
        return await self._grow(tables.add_items, self._now(), self._max_bytes, owner, conversation, items)

    async def page(
        self, owner: str, conversation: str, *, after: str | None, limit: int, descending: bool
    ) -> ItemPage | None:
        return await self._read(tables.page, owner, conversation, after, limit, descending)

    async def item(self, owner: str, conversation: str, item: str) -> StoredItem | None:
        return await self._read(tables.item, owner, conversation, item)

    async def delete_item(self, owner: str, conversation: str, item: str) -> bool:
        return await self._write(tables.delete_item, owner, conversation, item)

    async def remember(self, verdict: ToolVerdict) -> None:
        await self._write(tables.remember, self._now(), verdict)

    async def verdict(self, upstream: str, model: str) -> ToolVerdict | None:
        return await self._read(tables.verdict, self._now(), upstream, model)

    async def keep_replay(self, replay: StoredReplay) -> None:
        await self._grow(carried_state.keep_replay, self._now(), self._max_bytes, replay)

    async def replay(
        self, owner: str, upstream: str, hashes: Sequence[str], calls: Collection[str] = ()
    ) -> StoredReplay | None:
        return await self._read(carried_state.replay, self._now() - self._max_age, owner, upstream, hashes, calls)

    async def issue_approval(self, owner: str, fingerprint: str) -> None:
        await self._grow(carried_state.issue_approval, self._now(), self._max_bytes, owner, fingerprint)

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        oldest, _ = self._ages()
        return await self._write(carried_state.redeem_approval, oldest, owner, fingerprint)

    async def keep_rounds(self, owner: str, rounds: StoredRounds) -> None:
        await self._grow(carried_state.keep_rounds, self._now(), self._max_bytes, owner, rounds)

    async def rounds(self, owner: str, hashes: Sequence[str]) -> list[StoredRounds]:
        found, stale = await self._read(carried_state.rounds, *self._ages(), owner, hashes)
        self._touch(stale)
        return found

    async def keep_state(self, state: StoredState) -> None:
        await self._grow(carried_state.keep_state, self._now(), self._max_bytes, state)

    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[StoredState]:
        found, stale = await self._read(carried_state.states, *self._ages(), owner, issuer, calls, hashes)
        self._touch(stale)
        return found

    def may_have_states(self, owner: str, issuer: str) -> bool:
        return self._glance.has_states(owner, issuer)

    def _ages(self) -> tuple[float, float]:
        """Return the last-use times before which data has expired, and before which it is updated: reads should rarely
        write."""
        return self._now() - self._max_age, self._now() - self._max_age / 10

    def _touch(self, stale: Sequence[str]) -> None:
        """Update the last use of threads later, so that the reader does not wait."""
        if stale:
            task = asyncio.create_task(self._touched(stale))
            self._touching.add(task)
            task.add_done_callback(self._touching.discard)

    async def _touched(self, stale: Sequence[str]) -> None:
        with suppress(StoreError):  # they are found again the next time
            await self._write(tables.touch_threads, self._now(), stale)

    async def size(self) -> StoreSize:
        return await self._read(tables.store_size)

    async def close(self) -> None:
        """Finish pending calls, then close the file. A second call does nothing."""
        try:
            await self._worker.close(self._connection.close)
        finally:
            self._glance.close()

    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        def read() -> T:
            # All statements see one moment: writes of other processes are not visible meanwhile.
            with self._transaction("BEGIN"):
                return work(self._connection, *arguments, **named)

        return await self._call(read, writes=False)

    async def _write(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        def write() -> T:
            with self._transaction():
                return work(self._connection, *arguments, **named)

        return await self._call(write)

    async def _grow(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Write, and make room for the new data."""

        def write() -> T:
            with self._transaction():
                result = work(self._connection, *arguments, **named)
            self._prune_quietly()
            return result

        return await self._call(write)

    async def _call(self, work: Callable[[], T], *, writes: bool = True) -> T:
        called, now = self._worker.call(work, writes=writes), self._now()
        if now - self._pruned >= PRUNE_EVERY:
            self._pruned = now
            self._worker.later(self._prune_quietly)
        return await called

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _prune_quietly(self) -> None:
        """Make room after a write, which remains valid if this fails: the next one tries again."""
        try:
            self._prune()
        except Exception:  # a damaged file fails in many ways
            return

    def _prune(self) -> None:
        self._pruning = False
        oldest = self._now() - self._max_age
        if not tables.thread_to_prune(self._connection, oldest, self._max_bytes):
            return  # the usual case, without locking the file
        with self._transaction():
            more = tables.prune_rows(self._connection, oldest, self._max_bytes, PRUNE_BATCH)
        if not more:
            return
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        if free > _FREE_PAGES:
            self._connection.execute(f"PRAGMA incremental_vacuum({_FREE_PAGES})").fetchall()
        if not self._pruning:
            self._pruning = self._worker.later(self._prune_quietly)


log = logging.getLogger("toolglot.store")

_HEADER = 48
"""Bytes: one of the two copies of the header."""
_QUERY = "SELECT 1 FROM states WHERE issuer = ? AND owner = ? LIMIT 1"


class StateCheck:
    def __init__(self, path: str) -> None:
        self._connection: sqlite3.Connection | None = None
        self._index: mmap.mmap | None = None
        self._seen = b""
        self._known: dict[tuple[str, str], bool] = {}
        with suppress(Exception):  # a damaged file fails in many ways
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA query_only = ON")
            self._connection.execute("SELECT 1 FROM states LIMIT 1").fetchall()  # ensures that there is an index
        with suppress(OSError, ValueError), open(f"{path}-shm", "rb") as file:
            self._index = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def has_states(self, owner: str, issuer: str) -> bool:
        if self._connection is None:
            return True
        if self._index is None:
            return self._look(owner, issuer)
        header = self._index[:_HEADER]
        if header != self._seen:
            self._known.clear()
            self._seen = header
        found = self._known.get((owner, issuer))
        if found is None:
            found = self._known[owner, issuer] = self._look(owner, issuer)
        return found

    def _look(self, owner: str, issuer: str) -> bool:
        try:
            assert self._connection is not None
            return self._connection.execute(_QUERY, (issuer, owner)).fetchone() is not None
        except Exception:
            # There may be states. If the store is broken, the next call reports it.
            log.debug("the store could not be queried for kept state", exc_info=True)
            return True

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
