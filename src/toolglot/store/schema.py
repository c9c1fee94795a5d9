"""The tables, as the migrations that make them. A migration that was released is never changed: add another one.

`bytes` of a thread and of all threads together are kept by triggers, so that they are right whatever deletes a row and
whichever process does.
"""

from __future__ import annotations

import sqlite3
from time import monotonic, sleep

from toolglot.store import StoreError

PATIENCE, PAUSE = 5.0, 0.01
"""Seconds for which a file is tried again that other processes open at the same time, and between two tries."""

APPLICATION_ID = 0x746F6F6C  # "tool": tells a store from anybody else's SQLite file

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

# Where an item of a response's output is found, for requests that name an item instead of repeating it.
_OUTPUT_ITEMS = """
CREATE TABLE output_items (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    response TEXT NOT NULL
)
"""

# `next` is the position of the next item: positions are never used again, as turns refer to them.
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

# What was found out about models. It is nobody's conversation: no thread has it, and its number is bounded.
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

# What an upstream wants back of a conversation: the newest few of each.
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

# What happened between a client's request and the answer it saw: calls that were run on the way.
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

# What a model wants back of an answer and its client may not keep. The answer is known by its calls, or by `hash`.
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

# Requests for a client's approval of a tool call that nobody has answered. Each row is one question.
_APPROVALS = """
CREATE TABLE approvals (
    owner TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    thread TEXT NOT NULL,
    bytes INTEGER NOT NULL
)
"""

# table -> the column that names its thread
_COUNTED = {"responses": "thread", "conversations": "id", "conversation_items": "conversation"}


def _counting(table: str, thread: str) -> tuple[str, ...]:
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
        *(statement for table, thread in _COUNTED.items() for statement in _counting(table, thread)),
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
        *_counting("replays", "thread"),
    ),
    # Several may be kept of conversations that say the same. Which one is wanted is told by their calls: all that is
    # needed to choose stands in the index, so that no value, which may be large, has to be read past.
    (
        "ALTER TABLE replays ADD COLUMN calls TEXT NOT NULL DEFAULT ''",
        "DROP INDEX replays_hash",
        "CREATE INDEX replays_hash ON replays (hash, owner, upstream, thread, calls)",
    ),
    (_ROUNDS, "CREATE INDEX rounds_thread ON rounds (thread)", *_counting("rounds", "thread")),
    (
        _STATES,
        "CREATE INDEX states_name ON states (calls, owner, issuer, hash)",
        "CREATE INDEX states_thread ON states (thread)",
        *_counting("states", "thread"),
    ),
    # Whether anything is kept of an upstream's is asked with every request.
    ("CREATE INDEX states_issuer ON states (issuer, owner)",),
    # Clients that drop the ids of calls are known by what was said alone.
    ("CREATE INDEX states_hash ON states (hash, owner, issuer)",),
    (
        _APPROVALS,
        "CREATE INDEX approvals_fingerprint ON approvals (fingerprint, owner)",
        "CREATE INDEX approvals_thread ON approvals (thread)",
        *_counting("approvals", "thread"),
    ),
)


def prepare(connection: sqlite3.Connection) -> None:
    """Bring the file to this version.

    Raises:
        StoreError: the file is somebody else's, or a later version's.
    """
    until = monotonic() + PATIENCE
    while True:
        try:
            _prepare(connection)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= until:
                raise
        # SQLite waits for others by itself, but not where two processes change a new file to WAL at once.
        sleep(PAUSE)


def _prepare(connection: sqlite3.Connection) -> None:
    _recognise(connection)
    # WAL lets readers of other processes go on while one writes; NORMAL loses nothing when the process is killed,
    # and at most the last transactions when the machine is.
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: another process may have been quicker.
        for number, statements in enumerate(MIGRATIONS[_version(connection) :], _version(connection) + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _recognise(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")  # both of one moment: another process may be making the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    finally:
        connection.execute("ROLLBACK")
    if tables and application != APPLICATION_ID:
        raise StoreError("foreign", "the file is an SQLite database of another program")
    if not tables:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can be chosen only while there is no table
    if (version := _version(connection)) > len(MIGRATIONS):
        message = f"a later version of toolglot wrote the file (schema {version}; this one knows {len(MIGRATIONS)})"
        raise StoreError("newer", message)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
