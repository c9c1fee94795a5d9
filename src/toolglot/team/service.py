"""Team features of a running gateway: the database, and the keys that this process has loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.config.schema import POSTGRES, REDIS, TeamConfig
from toolglot.errors import install_command
from toolglot.store import StoreError
from toolglot.store.failures import as_store_error
from toolglot.store.sqlite import default_path
from toolglot.team.counters import LocalCounters, Spent
from toolglot.team.database import SqliteDatabase, TeamDatabase
from toolglot.team.directory import KeyDirectory
from toolglot.team.file_counters import FileCounters
from toolglot.team.keys import ApiKey
from toolglot.team.ledger import Ledger
from toolglot.team.people import ProviderAddresses
from toolglot.upstream.transport import Transport

if TYPE_CHECKING:
    from toolglot.team.shared_counters import SharedCounters

FILE = "team.sqlite3"


class Team(Struct, eq=False):
    config: TeamConfig
    database: TeamDatabase
    keys: KeyDirectory
    counters: LocalCounters
    """Those of this process."""
    ledger: Ledger
    transport: Transport
    """Makes calls to the identity provider."""
    shared: SharedCounters | None = None
    """Counters that gateways on several machines share."""
    provider: ProviderAddresses | None = None
    """Addresses of the identity provider; None until they are fetched."""

    async def read_counts(self, key: ApiKey, windows: tuple[str, ...]) -> list[Spent]:
        """Return what a key has spent and holds in some windows. Raises `StoreError`."""
        shared = self.shared
        if shared is not None and key.policy.limits.has_budget:
            found = await shared.spent(key.id, windows)
            if found is not None:
                return found
        if not self.counters.knows(key.id):
            await self.ledger.load(key.id)
        return [self.counters.spent(key.id, window) for window in windows]

    async def run(self) -> None:
        """Follow changes in the database, and save usage, until cancelled."""
        shared = [] if self.shared is None else [self.shared.run()]
        await asyncio.gather(self.keys.watch(), self.ledger.run(), *shared)

    async def close(self) -> None:
        await self.ledger.close()
        self.counters.close()
        if self.shared is not None:
            await self.shared.close()
        await self.database.close()


async def open_database(config: TeamConfig, environ: Mapping[str, str]) -> TeamDatabase:
    """Open the team's database, and create it if necessary. Raises `StoreError`."""
    if config.database is not None and is_postgres(config.database):
        return await _open_postgres(config.database)
    return await asyncio.to_thread(SqliteDatabase, config.database or _default_folder(environ) / FILE)


def is_postgres(database: str) -> bool:
    """Whether it is the URL of a PostgreSQL database, not the path of a file."""
    return database.startswith(POSTGRES)


async def _open_postgres(url: str) -> TeamDatabase:
    try:
        from toolglot.team.postgres import PostgresDatabase
    except ImportError:
        raise StoreError("failed", f"PostgreSQL needs asyncpg: {install_command('asyncpg', 'postgres')}") from None
    return await PostgresDatabase.open(url)


def _default_folder(environ: Mapping[str, str]) -> Path:
    return default_path(environ, Path.home()).parent


def _spool_folder(config: TeamConfig, environ: Mapping[str, str]) -> Path:
    """Return the folder of the spool files, which hold usage until it is in the database."""
    if config.spool:
        return Path(config.spool)
    if config.database is None or is_postgres(config.database):
        return _default_folder(environ) / "team.spool"
    return Path(config.database).with_suffix(".spool")


def _counters_file(config: TeamConfig, environ: Mapping[str, str], workers: int) -> Path | None:
    """Return the file in which the processes of this machine count; None if this process counts alone."""
    if config.limits is not None:
        return None if config.limits.startswith(REDIS) else Path(config.limits)
    if workers == 1:
        return None
    return _spool_folder(config, environ).with_suffix(".counters")


async def open_team(config: TeamConfig, environ: Mapping[str, str], transport: Transport, workers: int = 1) -> Team:
    """Open the team's database and load its state. `workers` is the number of processes of this gateway. Raises
    `StoreError`: a gateway must not start without its keys."""
    database = await open_database(config, environ)
    keys = KeyDirectory(database, pepper=config.pepper)
    await keys.refresh()
    file = _counters_file(config, environ, workers)
    counters = LocalCounters() if file is None else FileCounters(file)
    try:
        ledger = Ledger(database, counters, _spool_folder(config, environ))
    except OSError as error:
        raise as_store_error(error) from None
    await ledger.adopt()  # so that budgets are correct from the first request
    shared = ledger.shared = await _open_shared(config.limits, ledger, counters)
    return Team(config, database, keys, counters, ledger, transport, shared)


async def _open_shared(limits: str | None, ledger: Ledger, local: LocalCounters) -> SharedCounters | None:
    """Connect to the counters that all gateways share. If Redis is away now, it is tried again."""
    if limits is None or not limits.startswith(REDIS):
        return None
    from toolglot.team.shared_counters import SharedCounters

    shared = SharedCounters(limits, ledger.read_spent, local)
    await shared.beat()
    return shared
