"""A database of each kind, and the servers that they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.team.counting import COUNTERS, Counters
from tests.team.fixtures import postgres, redis
from tests.team.places import KINDS, Place, PostgresPlace, SqlitePlace

__all__ = ["postgres", "redis"]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database. Tests run with each kind."""
    if request.param == "postgres":
        return PostgresPlace(request.getfixturevalue("postgres"))
    return SqlitePlace(tmp_path)


@pytest.fixture(params=COUNTERS)
def counters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Counters]:
    """New counters. Tests run with each kind."""
    with COUNTERS[request.param](request, tmp_path) as made:
        yield made
