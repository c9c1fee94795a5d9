"""Threads, the units of deletion that limit the store's size, as SQL.

All functions run inside a transaction that their caller begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from toolglot.store import StoreError, StoreSize

ROW_BYTES = 256
"""Size of a row in addition to its JSON: ids, numbers, indexes."""


def grow_thread(connection: sqlite3.Connection, thread: str, now: float, max_bytes: int, more: int) -> None:
    """Record that a thread grows; refuses one that would fill the whole store and displace all others."""
    connection.execute(
        "INSERT INTO threads (id, used) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET used = excluded.used",
        (thread, now),
    )
    (weight,) = connection.execute("SELECT bytes FROM threads WHERE id = ?", (thread,)).fetchone()
    if weight + more > max_bytes:
        message = f"this would make one conversation larger than the whole store may be ({max_bytes} bytes)"
        raise StoreError("full", message)


def touch_threads(connection: sqlite3.Connection, now: float, threads: Sequence[str]) -> None:
    """Record that existing threads were used."""
    connection.executemany("UPDATE threads SET used = max(used, ?) WHERE id = ?", ((now, each) for each in threads))


def store_size(connection: sqlite3.Connection) -> StoreSize:
    return StoreSize(*connection.execute("SELECT totals.bytes, (SELECT count(*) FROM threads) FROM totals").fetchone())


def thread_to_prune(connection: sqlite3.Connection, oldest: float, max_bytes: int) -> str | None:
    """Return the least recently used thread, if it has to be deleted. Needs no transaction."""
    found = connection.execute(
        "SELECT id, used, (SELECT bytes FROM totals) FROM threads ORDER BY used LIMIT 1"
    ).fetchone()
    return None if found is None or (found[1] >= oldest and found[2] <= max_bytes) else str(found[0])


def prune_rows(connection: sqlite3.Connection, oldest: float, max_bytes: int, rows: int) -> bool:
    """Delete some rows of the least recently used thread, if it has to be deleted; returns whether it had to."""
    thread = thread_to_prune(connection, oldest, max_bytes)
    if thread is None:
        return False
    # Items first and the conversation itself last: while a part is left, so is the thread, and the next call continues.
    for statement in (
        "DELETE FROM responses WHERE rowid IN (SELECT rowid FROM responses WHERE thread = ? LIMIT ?)",
        "DELETE FROM replays WHERE rowid IN (SELECT rowid FROM replays WHERE thread = ? LIMIT ?)",
        "DELETE FROM rounds WHERE rowid IN (SELECT rowid FROM rounds WHERE thread = ? LIMIT ?)",
        "DELETE FROM states WHERE rowid IN (SELECT rowid FROM states WHERE thread = ? LIMIT ?)",
        "DELETE FROM approvals WHERE rowid IN (SELECT rowid FROM approvals WHERE thread = ? LIMIT ?)",
        "DELETE FROM conversation_items WHERE rowid IN "
        "(SELECT rowid FROM conversation_items WHERE conversation = ? LIMIT ?)",
        "DELETE FROM conversations WHERE rowid IN (SELECT rowid FROM conversations WHERE id = ? LIMIT ?)",
    ):
        rows -= connection.execute(statement, (thread, rows)).rowcount
    if rows > 0:
        connection.execute("DELETE FROM threads WHERE id = ?", (thread,))
    return True
