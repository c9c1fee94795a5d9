"""What the session runs (a loopback server, the SDKs' processes, gateways), and what is done without the SDKs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .gateway import Gateways
from .js_ways import close_runners
from .loopback import Loopback
from .needs import MISSING_PYTHON

# One visible skip in test_setup.py stands for all of these.
collect_ignore_glob = ["test_[!s]*.py"] if MISSING_PYTHON else []


@pytest.fixture(scope="session", autouse=True)
def runners() -> Iterator[None]:
    yield
    close_runners()


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.close()


@pytest.fixture(scope="session")
def gateways(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    running = Gateways(loopback, tmp_path_factory.mktemp("gateways"))
    yield running
    running.close()
