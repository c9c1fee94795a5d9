"""What goes wrong in SQLite, in our own words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from toolglot.store import Failure, StoreError

T = TypeVar("T")

_FAILURES: dict[int, tuple[Failure, str]] = {
    sqlite3.SQLITE_FULL: ("full", "the disk or the store's file is full"),
    sqlite3.SQLITE_IOERR: ("full", "the disk refuses to read or write"),
    sqlite3.SQLITE_BUSY: ("locked", "another process holds the store's file"),
    sqlite3.SQLITE_LOCKED: ("locked", "another process holds the store's file"),
    sqlite3.SQLITE_CONSTRAINT: ("duplicate", "something with this id is stored already"),
    sqlite3.SQLITE_NOTADB: ("foreign", "the file is not an SQLite database"),
    sqlite3.SQLITE_CORRUPT: ("foreign", "the file is damaged"),
    sqlite3.SQLITE_CANTOPEN: ("failed", "the file cannot be opened"),
    sqlite3.SQLITE_READONLY: ("failed", "the file is read-only"),
}


def explained(error: sqlite3.Error) -> StoreError:
    """The error in our words: SQLite's own may repeat what was to be stored."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else -1  # the rest of the bits say more than is needed
    failure, message = _FAILURES.get(primary, ("failed", f"SQLite failed: {type(error).__name__}"))
    return StoreError(failure, message)


def told(work: Callable[[], T]) -> T:
    """What the work comes to. Raises `StoreError`."""
    try:
        return work()
    except sqlite3.Error as error:
        raise explained(error) from None
