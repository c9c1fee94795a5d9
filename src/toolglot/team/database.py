"""The team's database: runs operations (`sql.py`) in transactions. One class for each kind of database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from toolglot.store import StoreError
from toolglot.store.failures import run_as_store_call
from toolglot.store.schema import retry_while_busy
from toolglot.store.worker import StoreWorker
from toolglot.team.sql import NewerSchemaError, Operation, migrate

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds that a call waits for another process to finish writing."""
_APPLICATION_ID = 0x7467746D  # "tgtm": distinguishes a team database from other SQLite files


class TeamDatabase(Protocol):
    """The team's database. Every method may raise `StoreError`."""

    async def run(self, begin: Callable[[], Operation[T]], *, writes: bool = True) -> T:
        """Run an operation in a transaction. It starts again after a conflict with another process."""
        ...

    async def close(self) -> None: ...


class SqliteDatabase:
    """A database file that several processes on one machine can share."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            self._connection = run_as_store_call(lambda: _open(self.path))
        except StoreError as error:
            raise StoreError(error.failure, f"{self.path}: {error}") from None
        self._file = run_as_store_call(lambda: os.stat(self.path))
        self._worker = StoreWorker("toolglot-team", PATIENCE)

    async def run(self, begin: Callable[[], Operation[T]], *, writes: bool = True) -> T:
        return await self._worker.call(lambda: self._transact(begin, writes=writes), writes=writes)

    def _transact(self, begin: Callable[[], Operation[T]], *, writes: bool) -> T:
        """Run an operation, unless the file has gone: what is written to it would be lost, and changes in another file
        with its name would not be seen."""
        try:
            is_there = os.path.samestat(os.stat(self.path), self._file)
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise StoreError("failed", "its file was deleted or replaced; restart the gateway")
        return run_transaction(self._connection, begin(), writes=writes)

    async def close(self) -> None:
        await self._worker.close(self._connection.close)


def _open(path: str) -> sqlite3.Connection:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        # In this order: a process that opens a new file at the same time sets the id before it makes tables.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if tables and application != _APPLICATION_ID:
            raise StoreError("foreign", "the file is an SQLite database of another program")
        retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        try:
            run_transaction(connection, migrate())
        except NewerSchemaError as error:
            raise StoreError("newer", str(error)) from None
        connection.execute("PRAGMA busy_timeout = 0").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def run_transaction(connection: sqlite3.Connection, operation: Operation[T], *, writes: bool = True) -> T:
    """Run an operation on a connection to SQLite."""
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        statement = next(operation)
        while True:
            text, parameters = statement
            statement = operation.send(connection.execute(_to_sqlite(text), tuple(parameters)).fetchall())
    except StopIteration as end:
        connection.execute("COMMIT")
        result: T = end.value
        return result
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@lru_cache(maxsize=256)
def _to_sqlite(statement: str) -> str:
    return statement.replace("$", "?")
