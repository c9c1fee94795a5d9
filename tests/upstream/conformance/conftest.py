from __future__ import annotations

import pytest

from tests.upstream.conformance.clients import CLIENTS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", CLIENTS, ids=lambda client: client.name)
