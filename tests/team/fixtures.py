"""The servers that gateways share, for the tests of several folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.team.servers import Postgres, Redis, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running(Postgres) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        yield server
