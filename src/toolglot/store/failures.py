"""The boundary of the store: every exception below it is a `StoreError` above it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from toolglot.store import StoreError, StoreFailure

T = TypeVar("T")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_FAILURES: dict[int, tuple[StoreFailure, str]] = {
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


def as_store_error(error: Exception) -> StoreError:
    """Convert any exception to a store failure with our own message: SQLite's message may quote the data.

    A damaged file raises more than `sqlite3.Error`: the module raises `UnicodeDecodeError` if SQLite's message quotes a
    damaged name, and rows may contain values of unexpected types.
    """
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        return StoreError("full" if error.errno in _FULL else "failed", error.strerror or type(error).__name__)
    if isinstance(error, UnicodeError):
        return StoreError("foreign", "the file is damaged")
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else -1  # the other bits are more detailed than needed
    failure, message = _FAILURES.get(primary, ("failed", f"it failed with {type(error).__name__}"))
    return StoreError(failure, message)


def run_as_store_call(work: Callable[[], T]) -> T:
    """Return the result of the work. Raises `StoreError`."""
    try:
        return work()
    except Exception as error:
        raise as_store_error(error) from None
