"""The team's part of a running gateway: its database, and the keys that this process knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from toolglot.config.schema import TeamConfig
from toolglot.store.sqlite import default_path
from toolglot.team.database import SqliteDatabase, TeamDatabase
from toolglot.team.directory import KeyDirectory

FILE = "team.sqlite3"


class Team(Struct, eq=False):
    database: TeamDatabase
    keys: KeyDirectory

    async def watch(self) -> None:
        """Follow changes of the database until cancelled."""
        await self.keys.watch()

    async def close(self) -> None:
        await self.database.close()


def open_database(config: TeamConfig, environ: Mapping[str, str]) -> TeamDatabase:
    """Open the team's database, and create it if necessary. Raises `StoreError`."""
    return SqliteDatabase(config.database or default_path(environ, Path.home()).with_name(FILE))


async def open_team(config: TeamConfig, environ: Mapping[str, str]) -> Team:
    """Raises `StoreError`: without its keys, no gateway may start."""
    database = await asyncio.to_thread(open_database, config, environ)
    keys = KeyDirectory(database, pepper=config.pepper)
    await keys.refresh()
    return Team(database, keys)
