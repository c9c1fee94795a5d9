"""The simulation of policies for pools shows what the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.balancing import Outcome, format_table, simulate

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "spread-load.md"
BLIND = ("random", "round robin", "least in flight")
"""Policies that ignore conversations."""


def test_the_table_of_the_documentation_is_what_the_simulation_prints() -> None:
    assert format_table(simulate(sessions=150, seed=1)) in PAGE.read_text()


@pytest.mark.parametrize(("sessions", "seed"), [(40, 7), (80, 3)])
def test_conversations_that_stay_keep_their_caches(sessions: int, seed: int) -> None:
    outcomes: dict[str, Outcome] = simulate(sessions, seed)
    ours, hashed = outcomes["ours"], outcomes["rendezvous"]
    for name in BLIND:
        other = outcomes[name]
        assert ours.cache_hits > other.cache_hits + 0.03, name
        assert ours.moved < other.moved / 3, name
        assert ours.limited <= other.limited, name
        assert ours.first_byte_p50 < other.first_byte_p50, name
    assert ours.cache_hits > hashed.cache_hits - 0.02
    assert all(ours.failed < outcomes[name].failed / 3 for name in (*BLIND, "rendezvous"))


def test_the_simulation_repeats_itself() -> None:
    assert simulate(sessions=10, seed=5) == simulate(sessions=10, seed=5)
