"""SQL for responses, conversations and verdicts: plain functions on a connection, called by one thread at a time.

All of them run inside a transaction that their caller begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256

from toolglot.store import (
    History,
    ItemPage,
    StoredConversation,
    StoredItem,
    StoredTurn,
    StoreError,
    StoreSize,
    ToolVerdict,
)

MAX_VERDICTS = 1000
"""Maximum number of models with a verdict; beyond it the oldest is deleted."""

_VERDICT = "upstream, model, tools, found, until"
_TURN = "id, owner, created, model, previous, conversation, before, request_input, response"


def _turn(row: Sequence[object] | None) -> StoredTurn | None:
    return StoredTurn(**dict(zip(StoredTurn.__struct_fields__, row, strict=True))) if row is not None else None  # type: ignore[arg-type]


def save(
    connection: sqlite3.Connection,
    now: float,
    max_bytes: int,
    turn: StoredTurn,
    items: Sequence[StoredItem],
    output_ids: Sequence[str],
) -> None:
    thread = turn.conversation or _find_thread(connection, turn.owner, turn.previous) or turn.id
    weight = ROW_BYTES * (1 + len(output_ids)) + len(turn.request_input) + len(turn.response)
    grow_thread(connection, thread, now, max_bytes, weight + _stored_bytes(items))
    connection.execute(
        f"INSERT INTO responses ({_TURN}, thread, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            turn.id,
            turn.owner,
            turn.created,
            turn.model,
            turn.previous,
            turn.conversation,
            turn.before,
            turn.request_input,
            turn.response,
            thread,
            weight,
        ),
    )
    rows = ((turn.owner, item, turn.id) for item in output_ids)
    connection.executemany("INSERT INTO output_items (owner, id, response) VALUES (?, ?, ?)", rows)
    if turn.conversation and conversation(connection, turn.owner, turn.conversation):
        _append(connection, turn.conversation, items)


def _find_thread(connection: sqlite3.Connection, owner: str, response: str | None) -> str | None:
    if response is None:
        return None
    row = connection.execute("SELECT thread FROM responses WHERE id = ? AND owner = ?", (response, owner)).fetchone()
    return row[0] if row else None


def _stored_bytes(items: Iterable[StoredItem]) -> int:
    return sum(ROW_BYTES + len(item.item) for item in items)


def turn(connection: sqlite3.Connection, owner: str, response: str) -> StoredTurn | None:
    rows = connection.execute(f"SELECT {_TURN} FROM responses WHERE id = ? AND owner = ?", (response, owner))
    return _turn(rows.fetchone())


def delete_turn(connection: sqlite3.Connection, owner: str, response: str) -> bool:
    return connection.execute("DELETE FROM responses WHERE id = ? AND owner = ?", (response, owner)).rowcount > 0


def history(connection: sqlite3.Connection, owner: str, response: str, max_bytes: int, max_turns: int) -> History:
    turns: list[StoredTurn] = []
    size = 0
    wanted: str | None = response
    while wanted is not None:
        found = turn(connection, owner, wanted)
        if found is None:
            return History(missing=wanted)
        turns.append(found)
        size += len(found.request_input) + len(found.response)
        if size > max_bytes or len(turns) > max_turns:
            return History(too_large=True)
        wanted = found.previous
    first = turns[-1]
    if first.conversation is None:
        return History(turns=tuple(reversed(turns)))
    before = conversation_history(connection, owner, first.conversation, max_bytes - size, first.before)
    if before.too_large or before.missing:
        return before
    return History(items=before.items, turns=tuple(reversed(turns)))


def holders(connection: sqlite3.Connection, owner: str, items: Sequence[str]) -> dict[str, bytes]:
    responses: dict[str, bytes] = {}
    found: dict[str, bytes] = {}
    for item in items:
        row = connection.execute(
            "SELECT response FROM output_items WHERE id = ? AND owner = ? ORDER BY rowid DESC LIMIT 1", (item, owner)
        ).fetchone()
        if row is None:
            continue
        if row[0] not in responses and (holder := turn(connection, owner, row[0])):
            responses[row[0]] = holder.response
        found[item] = responses[row[0]]
    return found


def create_conversation(
    connection: sqlite3.Connection, now: float, max_bytes: int, new: StoredConversation, items: Sequence[StoredItem]
) -> None:
    weight = ROW_BYTES + len(new.metadata)
    grow_thread(connection, new.id, now, max_bytes, weight + _stored_bytes(items))
    connection.execute(
        "INSERT INTO conversations (id, owner, created, metadata, bytes) VALUES (?, ?, ?, ?, ?)",
        (new.id, new.owner, new.created, new.metadata, weight),
    )
    _append(connection, new.id, items)


def conversation(connection: sqlite3.Connection, owner: str, wanted: str) -> StoredConversation | None:
    row = connection.execute(
        "SELECT created, metadata FROM conversations WHERE id = ? AND owner = ?", (wanted, owner)
    ).fetchone()
    return StoredConversation(id=wanted, owner=owner, created=row[0], metadata=row[1]) if row else None


def update_conversation(connection: sqlite3.Connection, owner: str, wanted: str, metadata: bytes) -> bool:
    changed = connection.execute(
        "UPDATE conversations SET metadata = ?, bytes = ? WHERE id = ? AND owner = ?",
        (metadata, ROW_BYTES + len(metadata), wanted, owner),
    )
    return changed.rowcount > 0


def delete_conversation(connection: sqlite3.Connection, owner: str, wanted: str) -> bool:
    if conversation(connection, owner, wanted) is None:
        return False
    connection.execute("DELETE FROM conversation_items WHERE conversation = ?", (wanted,))
    connection.execute("DELETE FROM conversations WHERE id = ?", (wanted,))
    return True


def conversation_history(
    connection: sqlite3.Connection, owner: str, wanted: str, max_bytes: int, before: int | None = None
) -> History:
    if conversation(connection, owner, wanted) is None:
        return History(missing=wanted)
    rows = connection.execute(
        "SELECT id, item FROM conversation_items WHERE conversation = ? AND (? IS NULL OR position < ?) "
        "ORDER BY position",
        (wanted, before, before),
    )
    items: list[StoredItem] = []
    size = 0
    for name, item in rows:
        size += len(item)
        if size > max_bytes:
            return History(too_large=True)
        items.append(StoredItem(name, item))
    return History(items=tuple(items), next=_next_position(connection, wanted))


def _next_position(connection: sqlite3.Connection, wanted: str) -> int:
    return int(connection.execute("SELECT next FROM conversations WHERE id = ?", (wanted,)).fetchone()[0])


def add_items(
    connection: sqlite3.Connection, now: float, max_bytes: int, owner: str, wanted: str, items: Sequence[StoredItem]
) -> tuple[StoredItem, ...] | None:
    if conversation(connection, owner, wanted) is None:
        return None
    grow_thread(connection, wanted, now, max_bytes, _stored_bytes(items))
    return _append(connection, wanted, items)


def _append(connection: sqlite3.Connection, wanted: str, items: Sequence[StoredItem]) -> tuple[StoredItem, ...]:
    added: list[StoredItem] = []
    for position, item in enumerate(items, _next_position(connection, wanted)):
        name = item.id
        if item_of(connection, wanted, name) is not None:
            prefix = name.partition("_")[0]
            name = f"{prefix}_{sha256(f'{wanted} {position} {name}'.encode()).hexdigest()[:48]}"
        connection.execute(
            "INSERT INTO conversation_items (conversation, position, id, item, bytes) VALUES (?, ?, ?, ?, ?)",
            (wanted, position, name, item.item, ROW_BYTES + len(item.item)),
        )
        added.append(StoredItem(name, item.item))
    connection.execute("UPDATE conversations SET next = next + ? WHERE id = ?", (len(added), wanted))
    return tuple(added)


def page(
    connection: sqlite3.Connection, owner: str, wanted: str, after: str | None, limit: int, descending: bool
) -> ItemPage | None:
    if conversation(connection, owner, wanted) is None:
        return None
    start: int | None = None
    if after is not None:
        row = connection.execute(
            "SELECT position FROM conversation_items WHERE conversation = ? AND id = ?", (wanted, after)
        ).fetchone()
        if row is None:
            return None
        start = row[0]
    beyond, order = ("<", "DESC") if descending else (">", "ASC")
    rows = connection.execute(
        f"SELECT id, item FROM conversation_items WHERE conversation = ? AND (? IS NULL OR position {beyond} ?) "
        f"ORDER BY position {order} LIMIT ?",
        (wanted, start, start, limit + 1),
    ).fetchall()
    return ItemPage(tuple(StoredItem(*row) for row in rows[:limit]), len(rows) > limit)


def item(connection: sqlite3.Connection, owner: str, wanted: str, name: str) -> StoredItem | None:
    return item_of(connection, wanted, name) if conversation(connection, owner, wanted) else None


def item_of(connection: sqlite3.Connection, wanted: str, name: str) -> StoredItem | None:
    row = connection.execute(
        "SELECT item FROM conversation_items WHERE conversation = ? AND id = ?", (wanted, name)
    ).fetchone()
    return StoredItem(name, row[0]) if row else None


def delete_item(connection: sqlite3.Connection, owner: str, wanted: str, name: str) -> bool:
    if conversation(connection, owner, wanted) is None:
        return False
    rows = connection.execute("DELETE FROM conversation_items WHERE conversation = ? AND id = ?", (wanted, name))
    return rows.rowcount > 0


def remember(connection: sqlite3.Connection, now: float, verdict: ToolVerdict) -> None:
    row = (verdict.upstream, verdict.model, verdict.tools, verdict.found, verdict.until)
    connection.execute(f"INSERT OR REPLACE INTO verdicts ({_VERDICT}) VALUES (?, ?, ?, ?, ?)", row)
    connection.execute("DELETE FROM verdicts WHERE until <= ?", (now,))
    connection.execute(
        "DELETE FROM verdicts WHERE (upstream, model) IN "
        "(SELECT upstream, model FROM verdicts ORDER BY found DESC LIMIT -1 OFFSET ?)",
        (MAX_VERDICTS,),
    )


def verdict(connection: sqlite3.Connection, now: float, upstream: str, model: str) -> ToolVerdict | None:
    row = connection.execute(
        f"SELECT {_VERDICT} FROM verdicts WHERE upstream = ? AND model = ? AND until > ?", (upstream, model, now)
    ).fetchone()
    return ToolVerdict(**dict(zip(ToolVerdict.__struct_fields__, row, strict=True))) if row is not None else None


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
