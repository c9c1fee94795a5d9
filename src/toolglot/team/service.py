"""Team features of a running gateway: the database, and the keys that this process has loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from toolglot.config.schema import TeamConfig
from toolglot.store import StoreError
from toolglot.store.failures import as_store_error
from toolglot.store.sqlite import default_path
from toolglot.team.counters import LocalCounters
from toolglot.team.database import SqliteDatabase, TeamDatabase
from toolglot.team.directory import KeyDirectory
from toolglot.team.ledger import Ledger
from toolglot.team.people import ProviderAddresses
from toolglot.upstream.transport import Transport

FILE = "team.sqlite3"


class Team(Struct, eq=False):
    config: TeamConfig
    database: TeamDatabase
    keys: KeyDirectory
    counters: LocalCounters
    ledger: Ledger
    transport: Transport
    """Makes calls to the identity provider."""
    provider: ProviderAddresses | None = None
    """Addresses of the identity provider; None until they are fetched."""

    async def run(self) -> None:
        """Follow changes in the database, and save usage, until cancelled."""
        await asyncio.gather(self.keys.watch(), self.ledger.run())

    async def close(self) -> None:
        await self.ledger.close()
        await self.database.close()


async def open_database(config: TeamConfig, environ: Mapping[str, str]) -> TeamDatabase:
    """Open the team's database, and create it if necessary. Raises `StoreError`."""
    if config.database is not None and is_postgres(config.database):
        return await _open_postgres(config.database)
    return await asyncio.to_thread(SqliteDatabase, config.database or _default_folder(environ) / FILE)


def is_postgres(database: str) -> bool:
    """Whether it is the URL of a PostgreSQL database, not the path of a file."""
    return database.startswith(("postgresql://", "postgres://"))


async def _open_postgres(url: str) -> TeamDatabase:
    try:
        from toolglot.team.postgres import PostgresDatabase
    except ImportError:
        raise StoreError("failed", "PostgreSQL needs another package: pip install 'toolglot[postgres]'") from None
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


async def open_team(config: TeamConfig, environ: Mapping[str, str], transport: Transport) -> Team:
    """Open the team's database and load its state. Raises `StoreError`: a gateway must not start without its keys."""
    database = await open_database(config, environ)
    keys = KeyDirectory(database, pepper=config.pepper)
    await keys.refresh()
    counters = LocalCounters()
    try:
        ledger = Ledger(database, counters, _spool_folder(config, environ))
    except OSError as error:
        raise as_store_error(error) from None
    await ledger.adopt()  # so that budgets are correct from the first request
    return Team(config, database, keys, counters, ledger, transport)
