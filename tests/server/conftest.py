"""Both drivers of the gateway: what holds on one holds on the other."""

from __future__ import annotations

import pytest

from tests.server import gateway

BOTH_DRIVERS = frozenset(
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
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_DRIVERS:
        metafunc.fixturenames.append("driver")
        metafunc.parametrize("driver", ["awaiting", "callback"], indirect=True)


@pytest.fixture
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(gateway, "DRIVER", request.param)
    return str(request.param)
