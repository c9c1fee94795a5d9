"""A database of each kind, and the servers that they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.team.places import KINDS, Place, PostgresPlace, SqlitePlace
from tests.team.servers import Postgres, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running(Postgres) as server:
        yield server


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database. Tests run with each kind."""
    if request.param == "postgres":
        return PostgresPlace(request.getfixturevalue("postgres"))
    return SqlitePlace(tmp_path)
