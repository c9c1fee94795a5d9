"""What keys have used: written to a spool file at once, and to the database every second.

A row is in the spool before its client gets the end of the answer. The file survives the process, so a killed gateway
loses nothing that it has answered: its next start, or another gateway on the machine, saves what is left. A row that is
saved twice counts once.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import time
from typing import IO, TYPE_CHECKING

import msgspec

from toolglot.store import StoreError
from toolglot.team import sql
from toolglot.team.counters import LocalCounters, Spent
from toolglot.team.database import TeamDatabase
from toolglot.team.limits import day_of
from toolglot.team.sql import UsageRow

if TYPE_CHECKING:
    from toolglot.team.shared_counters import SharedCounters

log = logging.getLogger("toolglot.server")

FLUSH_SECONDS = 1.0
ADOPT_EVERY = 30
"""Flushes after which spool files of other processes that have ended are looked for."""
MOST_BYTES = 4 * 1024 * 1024
"""Size of a spool file after which the next one is begun."""
BATCH = 1000
MOST_KNOWN = 100_000
_SUFFIX = ".usage"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(UsageRow)


class Spool:
    """A file of rows, locked by this process while it lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = self._open()
        self.size = 0

    def _open(self) -> IO[bytes]:
        name = self._folder / f"{os.getpid()}-{token_hex(4)}{_SUFFIX}"
        file = os.fdopen(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600), "wb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Append rows. They are out of this process when this returns. Raises `OSError`."""
        data = b"".join(b"%b\n" % _encoder.encode(row) for row in rows)
        self._file.write(data)
        self.size += len(data)

    def clear(self) -> None:
        """Forget all rows: they are saved."""
        self._file.truncate(0)
        self.size = 0

    def rotate(self) -> IO[bytes]:
        """Begin another file. Returns the one before, for `drop` once its rows are saved."""
        before, self._file, self.size = self._file, self._open(), 0
        return before

    def drop(self, file: IO[bytes]) -> None:
        os.unlink(_name_of(self._folder, file))
        file.close()

    def close(self) -> None:
        """Remove the file if it is empty. Otherwise the next process saves its rows."""
        if self.size == 0:
            self.drop(self._file)
        else:
            self._file.close()

    def adopt(self) -> Iterator[tuple[Path, list[UsageRow]]]:
        """Rows of processes that have ended. The caller saves them and removes the file."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                with path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path, list(_read_rows(path, file.read()))
            except (BlockingIOError, FileNotFoundError):
                continue  # its process is alive, or another one was faster


def _name_of(folder: Path, file: IO[bytes]) -> Path:
    wanted = os.fstat(file.fileno()).st_ino
    return next(path for path in folder.glob(f"*{_SUFFIX}") if path.stat().st_ino == wanted)


def _read_rows(path: Path, data: bytes) -> Iterator[UsageRow]:
    """Decode the rows of a file. The last one may be incomplete: then its client got no answer."""
    for line in data.splitlines():
        try:
            yield _decoder.decode(line)
        except msgspec.DecodeError:
            log.warning("%s has an incomplete row, which is dropped", path)


class Ledger:
    """Takes rows at once, and saves them in the background."""

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
        self._is_failing = False

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Take rows of one answer. They are safe when this returns, unless the disk fails."""
        try:
            self._spool.write(rows)
        except OSError as error:
            log.error("usage cannot be written to disk, and is lost if this process is killed: %s", error.strerror)
        self._pending += rows
        for row in rows:
            self._note_unsaved(row, 1)

    async def run(self) -> None:
        """Save what comes in until cancelled."""
        rounds = 0
        while True:
            try:
                if rounds % ADOPT_EVERY == 0:
                    await self.adopt()
                await self.flush()
                if self._is_failing:
                    log.info("usage is saved to the team database again")
                self._is_failing = False
            except StoreError as error:
                if not self._is_failing:
                    log.warning("usage cannot be saved now, and waits: %s", error)
                self._is_failing = True
            rounds += 1
            await asyncio.sleep(FLUSH_SECONDS)

    async def flush(self) -> None:
        """Save all rows, and read back what the keys have spent with all gateways. Raises `StoreError`."""
        rows, self._pending = self._pending, []
        before = self._spool.rotate() if self._spool.size > MOST_BYTES else None
        try:
            for start in range(0, len(rows), BATCH):
                await self._database.run(partial(sql.record_usage, rows[start : start + BATCH]))
        except BaseException:
            self._pending = rows + self._pending  # what is saved already counts once
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
        """Load what a key has spent, before its first request. Raises `StoreError`."""
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
        """Save what processes have left that ended suddenly. Raises `StoreError`."""
        for path, rows in self._spool.adopt():
            for start in range(0, len(rows), BATCH):
                await self._database.run(partial(sql.record_usage, rows[start : start + BATCH]))
            path.unlink(missing_ok=True)
            self._adopted.update(row.key_id for row in rows)
            if rows:
                log.info("saved the usage of %d answers of a gateway that ended suddenly", len(rows))

    async def close(self) -> None:
        try:
            await self.flush()
        except StoreError as error:
            log.warning("usage is saved when a gateway starts the next time: %s", error)
        self._spool.close()
