"""Both ways through the gateway: what holds on the general one holds on the express lane."""

from __future__ import annotations

import pytest

from tests.server import gateway

BOTH_WAYS = frozenset(
    {
        "test_backpressure",
        "test_body_budget",
        "test_broken_streams",
        "test_cancellation",
        "test_fallbacks",
        "test_faults",
        "test_full_pool",
        "test_gateway",
        "test_gotchas",
        "test_gotchas_of_answers",
        "test_half_close",
        "test_keepalive",
        "test_large_events",
        "test_limits",
        "test_metrics",
        "test_owners",
        "test_cache_marks",
        "test_prefix_reuse",
        "test_retried_answers",
        "test_shutdown",
        "test_states",
        "test_told",
        "test_wire_fidelity",
    }
)
"""The tests of what a client, an upstream or whoever looks on can see."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        metafunc.fixturenames.append("lane")
        metafunc.parametrize("lane", ["general", "express"], indirect=True)


@pytest.fixture
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the express lane every request may go that finds its model there, from the first one on."""
    monkeypatch.setattr(gateway, "EXPRESS", request.param == "express")
    return str(request.param)
