"""What the session runs (a loopback server, the SDKs' processes, gateways), and what is done without the SDKs."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from .gateway import Gateways
from .js_ways import close_runners
from .loopback import Loopback
from .needs import MISSING_PYTHON

# One visible skip in test_setup.py stands for all of these.
collect_ignore_glob = ["test_[!s]*.py"] if MISSING_PYTHON else []

SOCKETS_LEFT_BY_SDKS = (
    r"ignore:unclosed (transport )?<(socket\.socket|_SelectorSocketTransport) :ResourceWarning",
    r"ignore:Exception ignored in. <socket\.socket :pytest.PytestUnraisableExceptionWarning",
)
"""Some SDKs leave a socket to the garbage collector, for example when a stream ends in an error. The first filter is
for a collection during a test; the second for one between two tests, where the rule that warnings are errors has
already made an exception of it that nobody could catch, which pytest reports in the next test, whichever that is.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In these tests alone. The gateway has a process of its own here, so that no socket of its is overlooked."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            for rule in SOCKETS_LEFT_BY_SDKS:
                item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture(scope="package", autouse=True)
def clients() -> Iterator[None]:
    """What the clients hold ends with the last of these tests, so that no other test meets it."""
    yield
    close_runners()
    if not MISSING_PYTHON:
        from .python_ways import close_clients

        close_clients()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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
