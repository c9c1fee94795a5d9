"""One question to the store that comes with every request and is answered at once: is any state kept there at all?

A connection of its own looks one entry up in an index. In WAL mode a reader waits for nobody, but even that takes some
system calls; so an answer is kept for as long as nobody has written. That is seen in the first bytes of the file's
`-shm`, the header of the WAL index, which every commit changes (sqlite.org/walformat.html, section 2.1) and which all
processes have in common. What cannot be told is told as yes: whoever asks then looks properly.
"""

from __future__ import annotations

import mmap
import sqlite3
from contextlib import suppress

_HEADER = 48
"""Bytes: one of the two copies of the header."""
_QUERY = "SELECT 1 FROM states WHERE issuer = ? AND owner = ? LIMIT 1"


class Glance:
    def __init__(self, path: str) -> None:
        self._connection: sqlite3.Connection | None = None
        self._index: mmap.mmap | None = None
        self._seen = b""
        self._known: dict[tuple[str, str], bool] = {}
        with suppress(Exception):  # a damaged file fails in many ways
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA query_only = ON")
            self._connection.execute("SELECT 1 FROM states LIMIT 1").fetchall()  # makes sure that there is an index
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
            return True  # there may be some: whoever asks the store itself is told what is wrong with it

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
