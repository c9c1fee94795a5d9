"""Usage of keys: written to a spool file immediately, and to the database every second.

A row is in the spool before its client gets the end of the answer. The file survives the process, so a killed gateway
loses no usage of finished answers: its next start, or another gateway on the machine, saves the remaining rows. A row
that is saved twice counts once.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import time
from typing import IO, TYPE_CHECKING

import msgspec

from toolglot.store import StoreError
from toolglot.team import sql
from toolglot.team.background import repeat
from toolglot.team.counters import LocalCounters, Spent
from toolglot.team.database import TeamDatabase
from toolglot.team.limits import day_of
from toolglot.team.sql import UsageRow

if TYPE_CHECKING:
    from toolglot.team.shared_counters import SharedCounters

log = logging.getLogger("toolglot.server")

FLUSH_SECONDS = 1.0
ADOPT_EVERY = 30
"""Number of flushes between searches for spool files of ended processes."""
MOST_BYTES = 4 * 1024 * 1024
"""Size at which a spool file is rotated."""
BATCH = 1000
MOST_KNOWN = 100_000
_SUFFIX = ".usage"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(UsageRow)


class Spool:
    """A file of usage rows. The process holds a lock on it until it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = self._open()
        self.size = 0

    def _open(self) -> IO[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            name = self._folder / f"{os.getpid()}-{token_hex(4)}{_SUFFIX}"
            file = os.fdopen(
                os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600), "wb", buffering=0
            )
            # Until it is locked, another process may take it for one that is left, and remove it.
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file.fileno()).st_nlink:
                    return file
            except BlockingIOError:
                pass
            file.close()

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Append all rows or none. They survive the process once this returns. Raises `OSError`."""
        data = b"".join(b"%b\n" % _encoder.encode(row) for row in rows)
        written = self._file.write(data) or 0
        if written < len(data):  # a part of a row would also spoil the next one
            self._file.truncate(self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += len(data)

    def clear(self) -> None:
        """Remove all rows, which are saved in the database."""
        self._file.truncate(0)
        self.size = 0

    def rotate(self) -> IO[bytes]:
        """Start a new file. Returns the previous one, for `drop` once its rows are saved. Raises `OSError`."""
        opened = self._open()
        before, self._file, self.size = self._file, opened, 0
        return before

    def drop(self, file: IO[bytes]) -> None:
        """Remove a file of this process, unless somebody else has removed it."""
        try:
            if (name := _name_of(self._folder, file)) is not None:
                name.unlink(missing_ok=True)
        finally:
            file.close()

    def close(self) -> None:
        """Close the file, and remove it if it is empty. Otherwise the next process saves its rows."""
        if self.size == 0:
            self.drop(self._file)
        else:
            self._file.close()

    def adopt(self) -> Iterator[tuple[Path, list[UsageRow]]]:
        """Yield the files and rows of ended processes. The caller saves the rows and removes the file."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                with path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path, list(_read_rows(path, file.read()))
            except (BlockingIOError, FileNotFoundError):
                continue  # its process is alive, or another one was faster
            except OSError as error:
                log.warning("%s cannot be read, so its usage is not saved: %s", path, error.strerror)


def _name_of(folder: Path, file: IO[bytes]) -> Path | None:
    wanted = os.fstat(file.fileno())
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            if os.path.samestat(path.stat(), wanted):
                return path
    return None


def _read_rows(path: Path, data: bytes) -> Iterator[UsageRow]:
    """Decode the rows of a file. The last row may be incomplete; its client got no complete answer."""
    for line in data.splitlines():
        try:
            yield _decoder.decode(line)
        except msgspec.DecodeError:
            log.warning("%s has an incomplete row, which is dropped", path)


class Ledger:
    """Records usage immediately, and saves it to the database in the background."""

    def __init__(
        self,
        database: TeamDatabase,
        counters: LocalCounters,
        folder: Path,
        now: Callable[[], float] = time,
    ) -> None:
        self._database = database
        self._now = now
        self._counters = counters
        self.shared: SharedCounters | None = None
        self._known: dict[str, dict[str, Spent]] = {}
        """What keys had spent when that was read last."""
        self._spool = Spool(folder)
        self._pending: list[UsageRow] = []
        self._unsaved: dict[str, dict[str, Spent]] = {}
        """What keys have spent by these rows, by window."""
        self._adopted: set[str] = set()
        """Keys with usage of gateways that have ended, which no counter has."""
        self._rounds = 0

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Record the rows of one answer. They are on disk when this returns, unless the disk fails."""
        try:
            self._spool.write(rows)
        except OSError as error:
            log.error("usage cannot be written to disk and is lost if this process is killed: %s", error.strerror)
        self._pending += rows
        for row in rows:
            self._note_unsaved(row, 1)

    async def run(self) -> None:
        """Save new rows until cancelled."""
        failing = "usage cannot be saved to the team database now; retrying"
        working = "usage is saved to the team database again"
        await repeat(self._save, FLUSH_SECONDS, failing=failing, working=working)

    async def _save(self) -> None:
        """Save the rows of this process, and now and then those of processes that have ended."""
        rounds, self._rounds = self._rounds, self._rounds + 1
        if rounds % ADOPT_EVERY == 0:
            await self.adopt()
        await self.flush()

    async def flush(self) -> None:
        """Save all rows, and read the keys' spend at all gateways. Raises `StoreError`, or `OSError` for the spool."""
        rows, self._pending = self._pending, []
        before = self._begin_file() if self._spool.size > MOST_BYTES else None
        try:
            for start in range(0, len(rows), BATCH):
                await self._database.run(partial(sql.record_usage, rows[start : start + BATCH]))
        except BaseException:
            self._pending = rows + self._pending  # rows that were saved already count once
            raise
        for row in rows:
            self._note_unsaved(row, -1)
            for window in (row.day, row.day[:7]):
                self._counters.saved(row.key_id, window, row.tokens, row.nano_usd or 0)
        if before is not None:
            self._spool.drop(before)
        elif not self._pending:
            self._spool.clear()
        await self._rebase()

    def _begin_file(self) -> IO[bytes] | None:
        """Begin another spool file. Returns the one before; None if there can be no other one now."""
        try:
            return self._spool.rotate()
        except OSError as error:
            log.warning("usage stays in a spool file that is too large: %s", error.strerror)
            return None

    async def _rebase(self) -> None:
        keys, day = self._counters.take_active(), day_of(self._now())
        if self.shared is not None:
            keys = list({*keys, *self.shared.take_active(), *self._adopted})
            self._adopted.clear()
        for start in range(0, len(keys), sql.MOST_ROWS):
            for key, spent in (await self._read_spent(keys[start : start + sql.MOST_ROWS], day)).items():
                self._counters.rebase(key, spent)
                if self.shared is not None:
                    await self.shared.rebase(key, spent, self._unsaved.get(key, {}))

    def _note_unsaved(self, row: UsageRow, sign: int) -> None:
        windows = self._unsaved.setdefault(row.key_id, {})
        for name in (row.day, row.day[:7]):
            tokens, nano = windows.get(name, Spent(0, 0))
            windows[name] = Spent(tokens + sign * row.tokens, nano + sign * (row.nano_usd or 0))
        if not any(map(any, windows.values())):
            del self._unsaved[row.key_id]

    async def load(self, key: str) -> None:
        """Load a key's spend before its first request. Raises `StoreError`."""
        spent = await self.read_spent(key, day_of(self._now()))
        self._counters.load(key, spent, self._unsaved.get(key, {}))

    async def read_spent(self, key: str, day: str) -> dict[str, Spent]:
        """Read what a key has spent on a day and in its month, with all gateways. While the database is away, it is
        what was read last on that day. Raises `StoreError`."""
        try:
            return (await self._read_spent([key], day))[key]
        except StoreError:
            known = self._known.get(key, {})
            if day not in known:
                raise
            return known

    async def _read_spent(self, keys: Sequence[str], day: str) -> dict[str, dict[str, Spent]]:
        found = await self._database.run(partial(sql.spent, keys, day), writes=False)
        spent = {key: {day: Spent(*of_day), day[:7]: Spent(*of_month)} for key, (of_day, of_month) in found.items()}
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known.update(spent)
        return spent

    async def adopt(self) -> None:
        """Save the rows of processes that ended abnormally. Raises `StoreError`."""
        for path, rows in self._spool.adopt():
            for start in range(0, len(rows), BATCH):
                await self._database.run(partial(sql.record_usage, rows[start : start + BATCH]))
            path.unlink(missing_ok=True)
            self._adopted.update(row.key_id for row in rows)
            if rows:
                log.info("saved the usage of %d answers of a gateway that ended abnormally", len(rows))

    async def close(self) -> None:
        try:
            await self.flush()
        except (StoreError, OSError) as error:
            log.warning("usage is kept on disk until a gateway starts again: %s", error)
        try:
            self._spool.close()
        except OSError as error:
            log.warning("a spool file cannot be removed: %s", error.strerror)
