"""Counts of keys that the processes of one machine share: in a file, so that limits are not multiplied by workers.

Each change is one short transaction without a wait for the disk. The file may be lost at any time: what is spent comes
from the ledger again. What a process has reserved is kept under its name, and its name is locked while it lives, so
that the reservations of a killed process are dropped when they are in the way.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic

import msgspec
from msgspec import Struct, field

from toolglot.store import StoreError
from toolglot.store.failures import as_store_error
from toolglot.store.schema import retry_while_busy
from toolglot.team.counters import Demand, Exceeded, Hold, KeyCounts, LocalCounters, Spent

log = logging.getLogger("toolglot.server")

PATIENCE = 0.05
"""Seconds that a change waits while another process makes one, which takes microseconds."""
LOOK_SECONDS = 0.5
"""Time between two checks whether other processes are alive."""
_SUFFIX = ".live"


class _Reserved(Struct):
    """What one process has reserved for a key."""

    in_flight: int = 0
    windows: dict[str, tuple[int, int]] = {}

    def add(self, hold: Hold, sign: int) -> None:
        self.in_flight += sign
        for index, name in enumerate(hold.windows):
            tokens, nano = self.windows.get(name, (0, 0))
            held = tokens + sign * hold.tokens[index], nano + sign * hold.nano_usd[index]
            self.windows[name] = held
            if held == (0, 0):
                del self.windows[name]


class _SharedCounts(KeyCounts):
    processes: dict[str, _Reserved] = field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_SharedCounts).decode


class FileCounters(LocalCounters):
    """Raises `StoreError` where a limit cannot be checked."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._process = token_hex(8)
        self._loaded: set[str] = set()
        self._unsettled: list[tuple[Hold, Spent]] = []
        self._looked = 0.0
        try:
            self._connection = _open(path)
            self._live = self._lock_name()
        except (sqlite3.Error, OSError) as error:
            raise as_store_error(error) from None

    def knows(self, key: str) -> bool:
        return key in self._loaded

    def load(self, key: str, spent: Mapping[str, Spent], unsaved: Mapping[str, Spent] = {}) -> None:
        self._raise(key, spent, is_new=True)
        self._loaded.add(key)

    def rebase(self, key: str, spent: Mapping[str, Spent]) -> None:
        """Raise a key's counters to the sums of the database. The counters have what is not saved yet, too."""
        with suppress(StoreError):  # the next one is a second away
            self._raise(key, spent, is_new=False)

    def _raise(self, key: str, spent: Mapping[str, Spent], *, is_new: bool) -> None:
        with self._change(key) as counts:
            for name, amounts in spent.items():
                if is_new or name in counts.windows:
                    window = counts.window(name)
                    window.tokens = max(window.tokens, amounts.tokens)
                    window.nano_usd = max(window.nano_usd, amounts.nano_usd)

    def saved(self, key: str, window: str, tokens: int, nano_usd: int) -> None:
        """Nothing to note: a counter is never lowered."""

    def reserve(self, demand: Demand, now: float) -> Hold | Exceeded:
        with self._change(demand.key) as counts:
            found = super().reserve(demand, now)
            if isinstance(found, Exceeded) and self._drop_dead(counts):
                found = super().reserve(demand, now)
            if isinstance(found, Hold):
                counts.processes.setdefault(self._process, _Reserved()).add(found, 1)
            return found

    def check(self, hold: Hold, used: Spent, *, costs_money: bool, now: float) -> Exceeded | None:
        try:
            with self._change(hold.demand.key):
                return super().check(hold, used, costs_money=costs_money, now=now)
        except StoreError:
            return None  # it was admitted when it began

    def settle(self, hold: Hold, used: Spent) -> None:
        if hold.is_settled:
            return
        hold.is_settled = True
        self._unsettled.append((hold, used))
        # If the file is busy, the next change does it.
        with suppress(StoreError), self._change(hold.demand.key):
            pass

    def spent(self, key: str, window: str) -> Spent:
        with self._change(key):
            return super().spent(key, window)

    @contextmanager
    def _change(self, key: str) -> Iterator[_SharedCounts]:
        """A transaction on the counts of a key. Raises `StoreError`."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for each in {hold.demand.key for hold, _ in self._unsettled}:
                    counts = self._read(each)
                    for hold, used in self._unsettled:
                        if hold.demand.key == each:
                            self._settle(counts, hold, used)
                    self._write(each, counts)
                counts = self._read(key)
                yield counts
                self._write(key, counts)
                self._connection.execute("COMMIT")
                self._unsettled.clear()
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise as_store_error(error) from None
        finally:
            self._keys.clear()

    def _read(self, key: str) -> _SharedCounts:
        row = self._connection.execute("SELECT data FROM counts WHERE key = ?", (key,)).fetchone()
        counts = self._keys[key] = _SharedCounts() if row is None else _decode(row[0])
        return counts

    def _write(self, key: str, counts: _SharedCounts) -> None:
        self._connection.execute("INSERT OR REPLACE INTO counts (key, data) VALUES (?, ?)", (key, _encode(counts)))

    def _settle(self, counts: _SharedCounts, hold: Hold, used: Spent) -> None:
        if (reserved := counts.processes.get(self._process)) is None:
            return  # the file was lost meanwhile, and the ledger has what was used
        counts.settle(hold, used)
        reserved.add(hold, -1)
        if reserved.in_flight == 0:
            del counts.processes[self._process]

    def _drop_dead(self, counts: _SharedCounts) -> bool:
        """Drop what processes have reserved that have ended suddenly. Returns whether there were any."""
        others = counts.processes.keys() - {self._process}
        if not others or monotonic() - self._looked < LOOK_SECONDS:
            return False
        dead = [name for name in others if not self._is_alive(name)]
        for name in dead:
            reserved = counts.processes.pop(name)
            counts.in_flight -= reserved.in_flight
            for window_name, (tokens, nano) in reserved.windows.items():
                window = counts.window(window_name)
                window.held_tokens -= tokens
                window.held_nano_usd -= nano
        if not dead:
            self._looked = monotonic()
        return bool(dead)

    def _name(self, process: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{process}{_SUFFIX}")

    def _lock_name(self) -> int:
        """Create this process' name. It is locked before others can see it."""
        new = self._name(self._process).with_suffix(".new")
        live = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(live, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(new, self._name(self._process))
        for path in self._path.parent.glob(f"{self._path.name}.*{_SUFFIX}"):
            self._is_alive(path.name.removesuffix(_SUFFIX).rpartition(".")[2])
        return live

    def _is_alive(self, process: str) -> bool:
        """Whether a process lives. The name of a dead one is removed."""
        path = self._name(process)
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                return False
        except FileNotFoundError:
            return False
        except OSError:  # it is locked, or cannot be looked at now
            return True

    def close(self) -> None:
        self._name(self._process).unlink(missing_ok=True)
        os.close(self._live)
        self._connection.close()


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
    log.warning("%s is damaged, and begun anew: what is spent is read from the database", path)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=2.0, isolation_level=None, check_same_thread=False)
    try:
        retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE IF NOT EXISTS counts (key TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID")
        connection.execute(f"PRAGMA busy_timeout = {round(PATIENCE * 1000)}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
