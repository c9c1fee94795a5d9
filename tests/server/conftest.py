"""Both clients of a driver: what holds on a connection holds for the ASGI app."""

from __future__ import annotations

import pytest

from tests.server import gateway
from tests.team.fixtures import redis

__all__ = ["redis"]

BOTH_CLIENTS = frozenset(
    {
        "test_backpressure",
        "test_body_budget",
        "test_broken_streams",
        "test_cancellation",
        "test_half_close",
        "test_keepalive",
        "test_limits",
        "test_mcp_loop",
        "test_pipelining",
        "test_responses_chain",
        "test_shutdown",
        "test_wire_fidelity",
    }
)
"""The tests of how an answer is written: its head and framing, its end, silence, and a client that does not read."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_CLIENTS:
        metafunc.fixturenames.append("answered_by")
        metafunc.parametrize("answered_by", ["app", "connection"], indirect=True)


@pytest.fixture
def answered_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(gateway, "ANSWERED_BY", request.param)
    return str(request.param)
