"""All ways through the gateway: what holds on one driver, with one translation, holds on the others."""

from __future__ import annotations

import pytest

from tests.server import gateway

ALL_WAYS = frozenset(
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
    if metafunc.module.__name__.rpartition(".")[2] in ALL_WAYS:
        metafunc.fixturenames.append("way_through")
        metafunc.parametrize("way_through", ["awaiting", "callback", "direct"], indirect=True)


@pytest.fixture
def way_through(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(gateway, "WAY", request.param)
    return str(request.param)
