from __future__ import annotations

import pytest

from tests.upstream.conformance.ways import chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames:
        metafunc.parametrize("way", chosen(), ids=lambda way: way.name)
