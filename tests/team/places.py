"""Where a team's database is in tests: each test of it runs on every kind."""

from __future__ import annotations

import sqlite3
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from tests.team.servers import Postgres, find_program
from toolglot.config.schema import TeamConfig
from toolglot.team.database import TeamDatabase
from toolglot.team.service import open_database

KINDS = ("sqlite", "postgres")


class Place(ABC):
    """An empty database. `address` is `team.database` of the configuration."""

    address: str

    async def open(self) -> TeamDatabase:
        """Open it once more, as another process does."""
        return await open_database(TeamConfig(database=self.address), {})

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Change it behind the back of the program."""

    @abstractmethod
    def dump(self) -> bytes:
        """Everything that is stored."""


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        self._file = folder / "team.sqlite3"
        self.address = str(self._file)

    def execute(self, statement: str) -> None:
        connection = sqlite3.connect(self._file)
        connection.execute(statement)
        connection.commit()
        connection.close()

    def dump(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._file.parent.glob(f"{self._file.name}*"))


class PostgresPlace(Place):
    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.address = server.create_database()

    def execute(self, statement: str) -> None:
        self.server.query(f"SET search_path = toolglot; {statement}", self.address.rpartition("/")[2])

    def dump(self) -> bytes:
        command = [find_program("pg_dump"), "--dbname", self.address]
        return subprocess.run(command, check=True, capture_output=True).stdout
