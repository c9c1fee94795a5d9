"""SQL for the state of conversations that clients cannot carry themselves: replays, rounds, model states.

All functions run inside a transaction that their caller begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from toolglot.store import StoredReplay, StoredRounds, StoredState
from toolglot.store.tables import ROW_BYTES, grow_thread

MAX_REPLAYS = 8
"""Newest answers of one conversation from which a client can continue: each contains everything before it."""

MAX_SAME_CONTENT = 8
"""Newest conversations of one owner with the same content, which differ in their calls."""

_SAME_CONTENT = "hash = ? AND owner = ? AND upstream = ?"
_SAME_CALLS = "calls = ? AND owner = ? AND issuer = ?"
_STATE = "owner, issuer, calls, hash, value"

MAX_READ_BYTES = 32 * 1024 * 1024
"""Maximum bytes of states, or of rounds, that one request gets back."""
KEYS_PER_STATEMENT = 500
"""Keys per SQL statement."""


def keep_replay(connection: sqlite3.Connection, now: float, max_bytes: int, kept: StoredReplay) -> None:
    thread = f"replay_{sha256(f'{kept.owner} {kept.upstream} {kept.conversation}'.encode()).hexdigest()}"
    where, calls = (kept.hash, kept.owner, kept.upstream), " ".join(kept.calls)
    weight = ROW_BYTES + len(kept.value) + 2 * len(calls)  # which are also in an index
    connection.execute(f"DELETE FROM replays WHERE {_SAME_CONTENT} AND calls = ?", (*where, calls))
    grow_thread(connection, thread, now, max_bytes, weight)
    connection.execute(
        "INSERT INTO replays (hash, owner, upstream, conversation, thread, value, bytes, calls) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*where, kept.conversation, thread, kept.value, weight, calls),
    )
    for alike, values, limit in (("thread = ?", (thread,), MAX_REPLAYS), (_SAME_CONTENT, where, MAX_SAME_CONTENT)):
        connection.execute(
            "DELETE FROM replays WHERE rowid IN "
            f"(SELECT rowid FROM replays WHERE {alike} ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
            (*values, limit),
        )


def replay(
    connection: sqlite3.Connection,
    oldest: float,
    owner: str,
    upstream: str,
    hashes: Sequence[str],
    calls: Collection[str],
) -> StoredReplay | None:
    likeliest: tuple[str, int] | None = None
    for wanted in hashes:
        alike = connection.execute(
            "SELECT replays.rowid, calls FROM replays JOIN threads ON threads.id = thread "
            f"WHERE {_SAME_CONTENT} AND used >= ? ORDER BY replays.rowid DESC",
            (wanted, owner, upstream, oldest),
        ).fetchall()
        if alike:
            # Among conversations that share the same number of calls, the first one is used, which is the newest. The
            # same applies if none shares a call, because the client sends no ids, or if there are no calls yet: then
            # nothing distinguishes them, and the newest is the most likely to continue. A conversation with less
            # content that shares calls is even more likely: the other one may be a request to another model in the same
            # words.
            shared = [len(set(row[1].split()).intersection(calls)) for row in alike]
            row = alike[shared.index(max(shared))][0]
            if max(shared):
                return _replay(connection, owner, upstream, wanted, row)
            likeliest = likeliest or (wanted, row)
    return None if likeliest is None else _replay(connection, owner, upstream, *likeliest)


def _replay(connection: sqlite3.Connection, owner: str, upstream: str, wanted: str, row: int) -> StoredReplay:
    conversation, value, calls = connection.execute(
        "SELECT conversation, value, calls FROM replays WHERE rowid = ?", (row,)
    ).fetchone()
    return StoredReplay(
        owner=owner,
        upstream=upstream,
        hash=wanted,
        conversation=conversation,
        value=value,
        calls=tuple(calls.split()),
    )


def keep_rounds(connection: sqlite3.Connection, now: float, max_bytes: int, owner: str, kept: StoredRounds) -> None:
    thread = f"rounds_{sha256(f'{owner} {kept.hash}'.encode()).hexdigest()}"
    weight = ROW_BYTES + len(kept.value)
    connection.execute("DELETE FROM rounds WHERE hash = ? AND owner = ?", (kept.hash, owner))
    grow_thread(connection, thread, now, max_bytes, weight)
    connection.execute(
        "INSERT INTO rounds (owner, hash, thread, value, bytes) VALUES (?, ?, ?, ?, ?)",
        (owner, kept.hash, thread, kept.value, weight),
    )


def rounds(
    connection: sqlite3.Connection, oldest: float, fresh: float, owner: str, hashes: Sequence[str]
) -> tuple[list[StoredRounds], list[str]]:
    """Return those that exist, and the threads of those that were last used before `fresh`."""
    wanted = [_RowFilter("owner = ? AND hash IN", (owner,), hashes)]
    rows, stale = _rows(connection, "rounds", "hash, value", wanted, oldest, fresh)
    return [StoredRounds(*row) for row in rows], stale


def keep_state(connection: sqlite3.Connection, now: float, max_bytes: int, kept: StoredState) -> None:
    thread = f"state_{sha256(repr((kept.owner, kept.issuer, kept.calls, kept.hash)).encode()).hexdigest()}"
    weight = ROW_BYTES + len(kept.value)
    connection.execute("DELETE FROM states WHERE thread = ?", (thread,))
    grow_thread(connection, thread, now, max_bytes, weight)
    connection.execute(
        f"INSERT INTO states ({_STATE}, thread, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (kept.owner, kept.issuer, kept.calls, kept.hash, kept.value, thread, weight),
    )
    if kept.calls:
        connection.execute(
            "DELETE FROM states WHERE rowid IN "
            f"(SELECT rowid FROM states WHERE {_SAME_CALLS} ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
            (kept.calls, kept.owner, kept.issuer, MAX_SAME_CONTENT),
        )


def states(
    connection: sqlite3.Connection,
    oldest: float,
    fresh: float,
    owner: str,
    issuer: str,
    calls: Collection[str],
    hashes: Collection[str],
) -> tuple[list[StoredState], list[str]]:
    """Return those that exist, and the threads of those that were last used before `fresh`."""
    whose = (owner, issuer)
    # Many conversations may have the same content: only the newest of them is read.
    wanted = [
        _RowFilter("owner = ? AND issuer = ? AND calls IN", whose, calls),
        _RowFilter("owner = ? AND issuer = ? AND hash IN", whose, hashes, newest_of="hash"),
    ]
    rows, stale = _rows(connection, "states", _STATE, wanted, oldest, fresh)
    return [StoredState(**dict(zip(StoredState.__struct_fields__, row, strict=True))) for row in rows], stale


def issue_approval(connection: sqlite3.Connection, now: float, max_bytes: int, owner: str, fingerprint: str) -> None:
    thread = f"approval_{sha256(f'{owner} {fingerprint}'.encode()).hexdigest()}"
    grow_thread(connection, thread, now, max_bytes, ROW_BYTES)
    connection.execute(
        "INSERT INTO approvals (owner, fingerprint, thread, bytes) VALUES (?, ?, ?, ?)",
        (owner, fingerprint, thread, ROW_BYTES),
    )


def redeem_approval(connection: sqlite3.Connection, oldest: float, owner: str, fingerprint: str) -> bool:
    """Return whether there was such a request, and remove it."""
    found = connection.execute(
        "SELECT approvals.rowid FROM approvals JOIN threads ON threads.id = thread "
        "WHERE fingerprint = ? AND owner = ? AND used >= ? LIMIT 1",
        (fingerprint, owner, oldest),
    ).fetchone()
    if found is not None:
        connection.execute("DELETE FROM approvals WHERE rowid = ?", found)
    return found is not None


class _RowFilter(NamedTuple):
    """Rows that satisfy a condition; its last part takes some of these keys. `newest_of`: of those with the
    same value in this column only the newest."""

    where: str
    whose: tuple[str, ...]
    keys: Collection[str]
    newest_of: str | None = None


def _rows(
    connection: sqlite3.Connection,
    table: str,
    columns: str,
    wanted: Iterable[_RowFilter],
    oldest: float,
    fresh: float,
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return these columns of the rows for some keys, the newest of each first, with the bytes `value` as the last; and
    those of their threads whose last use must be updated."""
    rows: list[tuple[Any, ...]] = []
    stale: list[str] = []
    size = 0
    read: set[int] = set()
    for where, whose, keys, newest_of in wanted:
        row, group = f"{table}.rowid", ""
        if newest_of is not None:
            row, group = f"max({row})", f"GROUP BY {newest_of} "
        for some in _chunks(list(dict.fromkeys(keys))):
            marks = ", ".join("?" * len(some))
            known = connection.execute(
                f"SELECT {row} AS number, thread, used FROM {table} JOIN threads ON threads.id = thread "
                f"WHERE {where} ({marks}) AND used >= ? {group}ORDER BY number DESC",
                (*whose, *some, oldest),
            ).fetchall()
            for number, thread, used in known:
                if number in read:
                    continue
                read.add(number)
                rows.append(connection.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (number,)).fetchone())
                if used < fresh:
                    stale.append(thread)
                size += len(rows[-1][-1])
                if size > MAX_READ_BYTES:
                    return rows, stale
    return rows, stale


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split keys: SQLite accepts a few hundred values per statement."""
    return (keys[start : start + KEYS_PER_STATEMENT] for start in range(0, len(keys), KEYS_PER_STATEMENT))
