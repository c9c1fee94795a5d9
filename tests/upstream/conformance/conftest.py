from __future__ import annotations

import pytest

from tests.upstream.conformance.ways import WAYS, Way


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    chosen = request.param
    assert isinstance(chosen, Way)
    return chosen
