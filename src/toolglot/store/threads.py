"""Threads, by which the store is bounded: what belongs together and is forgotten together, as SQL.

All functions run inside a transaction which their caller begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from toolglot.store import Size, StoreError

ROW_BYTES = 256
"""What a row weighs beside its JSON: ids, numbers, indexes."""


def use(connection: sqlite3.Connection, thread: str, now: float, max_bytes: int, more: int) -> None:
    """Note that a thread grows; one that would fill the whole store may not, as all others would go for it."""
    connection.execute(
        "INSERT INTO threads (id, used) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET used = excluded.used",
        (thread, now),
    )
    (weight,) = connection.execute("SELECT bytes FROM threads WHERE id = ?", (thread,)).fetchone()
    if weight + more > max_bytes:
        message = f"this would make one conversation larger than the whole store may be ({max_bytes} bytes)"
        raise StoreError("full", message)


def touch(connection: sqlite3.Connection, now: float, threads: Sequence[str]) -> None:
    """Note that threads were of use, as far as they are still there."""
    connection.executemany("UPDATE threads SET used = max(used, ?) WHERE id = ?", ((now, each) for each in threads))


def size(connection: sqlite3.Connection) -> Size:
    return Size(*connection.execute("SELECT totals.bytes, (SELECT count(*) FROM threads) FROM totals").fetchone())


def crowded(connection: sqlite3.Connection, oldest: float, max_bytes: int) -> str | None:
    """The thread that was used the longest ago, if it has to go. It needs no transaction."""
    found = connection.execute(
        "SELECT id, used, (SELECT bytes FROM totals) FROM threads ORDER BY used LIMIT 1"
    ).fetchone()
    return None if found is None or (found[1] >= oldest and found[2] <= max_bytes) else str(found[0])


def prune(connection: sqlite3.Connection, oldest: float, max_bytes: int, rows: int) -> bool:
    """Forget some rows of the thread that was used the longest ago, if it has to go; whether one had to."""
    thread = crowded(connection, oldest, max_bytes)
    if thread is None:
        return False
    # Items first and the conversation itself last: while a part is left, so is the thread, and the next call goes on.
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
