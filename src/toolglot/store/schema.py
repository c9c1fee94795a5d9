"""The tables, as migrations. A released migration is never changed: add another one.

Triggers maintain the `bytes` of each thread and of all threads, so that they stay correct regardless of what deletes a
row, in any process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from time import monotonic, sleep

from toolglot.store import StoreError

OPEN_TIMEOUT, RETRY_PAUSE = 5.0, 0.01
"""Seconds to retry opening a file that other processes open at the same time, and between two attempts."""

APPLICATION_ID = 0x746F6F6C  # "tool": distinguishes a store from other SQLite files

_THREADS = """
CREATE TABLE threads (
    id TEXT PRIMARY KEY,
    used REAL NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID
"""

_RESPONSES = """
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    thread TEXT NOT NULL,
    created REAL NOT NULL,
    model TEXT NOT NULL,
    previous TEXT,
    conversation TEXT,
    before INTEGER NOT NULL,
    request_input BLOB NOT NULL,
    response BLOB NOT NULL,
    bytes INTEGER NOT NULL
)
"""

# Index of the items of responses' outputs, for requests that name an item instead of repeating it.
_OUTPUT_ITEMS = """
CREATE TABLE output_items (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    response TEXT NOT NULL
)
"""

# `next` is the position of the next item: positions are never reused, because turns refer to them.
_CONVERSATIONS = """
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    created REAL NOT NULL,
    metadata BLOB NOT NULL,
    next INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL
)
"""

_CONVERSATION_ITEMS = """
CREATE TABLE conversation_items (
    conversation TEXT NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    item BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (conversation, position),
    UNIQUE (conversation, id)
)
"""

# Findings about models. It belongs to no thread, and its number is limited.
_VERDICTS = """
CREATE TABLE verdicts (
    upstream TEXT NOT NULL,
    model TEXT NOT NULL,
    tools TEXT NOT NULL,
    found REAL NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (upstream, model)
) WITHOUT ROWID
"""

# Messages of a conversation that an upstream expects back: the newest few of each.
_REPLAYS = """
CREATE TABLE replays (
    owner TEXT NOT NULL,
    upstream TEXT NOT NULL,
    hash TEXT NOT NULL,
    conversation TEXT NOT NULL,
    thread TEXT NOT NULL,
    value BLOB NOT NULL,
    bytes INTEGER NOT NULL
)
"""

# What happened between a client's request and the answer it saw: calls that were run in between.
_ROUNDS = """
CREATE TABLE rounds (
    owner TEXT NOT NULL,
    hash TEXT NOT NULL,
    thread TEXT NOT NULL,
    value BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (hash, owner)
)
"""

# State that a model expects back with an answer but its client may not keep. The answer is identified by its calls, or
# by
# `hash`.
_STATES = """
CREATE TABLE states (
    owner TEXT NOT NULL,
    issuer TEXT NOT NULL,
    calls TEXT NOT NULL,
    hash TEXT NOT NULL,
    thread TEXT NOT NULL,
    value BLOB NOT NULL,
    bytes INTEGER NOT NULL
)
"""

# Unanswered requests for a client's approval of a tool call. Each row is one question.
_APPROVALS = """
CREATE TABLE approvals (
    owner TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    thread TEXT NOT NULL,
    bytes INTEGER NOT NULL
)
"""

# table -> the column that names its thread
_COUNTED_TABLES = {"responses": "thread", "conversations": "id", "conversation_items": "conversation"}


def _count_triggers(table: str, thread: str) -> tuple[str, ...]:
    return (
        f"""
        CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN
            UPDATE threads SET bytes = bytes + NEW.bytes WHERE id = NEW.{thread};
            UPDATE totals SET bytes = bytes + NEW.bytes;
        END
        """,
        f"""
        CREATE TRIGGER {table}_changed AFTER UPDATE OF bytes ON {table} BEGIN
            UPDATE threads SET bytes = bytes + NEW.bytes - OLD.bytes WHERE id = NEW.{thread};
            UPDATE totals SET bytes = bytes + NEW.bytes - OLD.bytes;
        END
        """,
        f"""
        CREATE TRIGGER {table}_gone AFTER DELETE ON {table} BEGIN
            UPDATE threads SET bytes = bytes - OLD.bytes WHERE id = OLD.{thread};
            DELETE FROM threads WHERE id = OLD.{thread} AND bytes <= 0;
            UPDATE totals SET bytes = bytes - OLD.bytes;
        END
        """,
    )


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {APPLICATION_ID}",
        "CREATE TABLE totals (bytes INTEGER NOT NULL)",
        "INSERT INTO totals (bytes) VALUES (0)",
        _THREADS,
        "CREATE INDEX threads_used ON threads (used)",
        _RESPONSES,
        "CREATE INDEX responses_thread ON responses (thread)",
        _OUTPUT_ITEMS,
        "CREATE INDEX output_items_id ON output_items (id, owner)",
        "CREATE INDEX output_items_response ON output_items (response)",
        _CONVERSATIONS,
        _CONVERSATION_ITEMS,
        *(statement for table, thread in _COUNTED_TABLES.items() for statement in _count_triggers(table, thread)),
        """
        CREATE TRIGGER output_items_gone AFTER DELETE ON responses BEGIN
            DELETE FROM output_items WHERE response = OLD.id;
        END
        """,
    ),
    (_VERDICTS,),
    (
        _REPLAYS,
        "CREATE UNIQUE INDEX replays_hash ON replays (hash, owner, upstream)",
        "CREATE INDEX replays_thread ON replays (thread)",
        *_count_triggers("replays", "thread"),
    ),
    # Several may be kept of conversations with the same content. Their calls decide which one is wanted: the index has
    # everything needed to choose, so that no value, which may be large, has to be read.
    (
        "ALTER TABLE replays ADD COLUMN calls TEXT NOT NULL DEFAULT ''",
        "DROP INDEX replays_hash",
        "CREATE INDEX replays_hash ON replays (hash, owner, upstream, thread, calls)",
    ),
    (_ROUNDS, "CREATE INDEX rounds_thread ON rounds (thread)", *_count_triggers("rounds", "thread")),
    (
        _STATES,
        "CREATE INDEX states_name ON states (calls, owner, issuer, hash)",
        "CREATE INDEX states_thread ON states (thread)",
        *_count_triggers("states", "thread"),
    ),
    # Every request checks whether anything is kept of an upstream.
    ("CREATE INDEX states_issuer ON states (issuer, owner)",),
    # Clients that drop the ids of calls are identified by content alone.
    ("CREATE INDEX states_hash ON states (hash, owner, issuer)",),
    (
        _APPROVALS,
        "CREATE INDEX approvals_fingerprint ON approvals (fingerprint, owner)",
        "CREATE INDEX approvals_thread ON approvals (thread)",
        *_count_triggers("approvals", "thread"),
    ),
)


def prepare_database(connection: sqlite3.Connection) -> None:
    """Migrate the file to this version.

    Raises:
        StoreError: the file is not a store, or a later version's.
    """
    retry_while_busy(lambda: _migrate(connection))


def retry_while_busy(work: Callable[[], object]) -> None:
    """Do work that opens a file. SQLite waits for others by itself, but not if two processes switch a new file to WAL
    at once."""
    until = monotonic() + OPEN_TIMEOUT
    while True:
        try:
            work()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= until:
                raise
        sleep(RETRY_PAUSE)


def _migrate(connection: sqlite3.Connection) -> None:
    _check_file(connection)
    # WAL lets readers of other processes continue while one writes; NORMAL loses nothing when the process is killed,
    # and at most the last transactions when the machine is.
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again under the lock: another process may have been faster.
        for number, statements in enumerate(MIGRATIONS[_version(connection) :], _version(connection) + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_file(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")  # both at one moment: another process may be creating the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    finally:
        connection.execute("ROLLBACK")
    if tables and application != APPLICATION_ID:
        raise StoreError("foreign", "the file is an SQLite database of another program")
    if not tables:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can be set only while there is no table
    if (version := _version(connection)) > len(MIGRATIONS):
        message = f"a later version of toolglot wrote the file (schema {version}; this one knows {len(MIGRATIONS)})"
        raise StoreError("newer", message)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
