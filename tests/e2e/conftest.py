"""The loopback server of the session, and what is done when the SDKs are not installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .js_ways import close_runners
from .loopback import Loopback
from .needs import MISSING_PYTHON

# One visible skip in test_setup.py stands for all of these.
collect_ignore_glob = ["test_[!s]*.py"] if MISSING_PYTHON else []


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    close_runners()
    server.close()
