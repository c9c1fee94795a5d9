"""A fast check that every request makes: does the store have any state at all?

A separate connection looks up one entry in an index. In WAL mode a reader does not wait, but even that takes some
system calls, so the result is cached as long as nothing was written. Writes are visible in the first bytes of the
file's `-shm`, the header of the WAL index, which every commit changes (sqlite.org/walformat.html, section 2.1) and
which all processes share. If in doubt the result is True: the caller then looks properly.
"""

from __future__ import annotations

import logging
import mmap
import sqlite3
from contextlib import suppress

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
            # There may be some: a call of the store itself reports what is wrong with it.
            log.debug("the store could not be queried for kept state", exc_info=True)
            return True

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
