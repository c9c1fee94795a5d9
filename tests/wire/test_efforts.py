from __future__ import annotations

import pytest

from toolglot.wire.efforts import BUDGETS, SCALE, budget_to_effort, effort_to_budget


@pytest.mark.parametrize(
    ("effort", "budget"),
    [("minimal", 1024), ("low", 1024), ("medium", 8192), ("high", 24576), ("xhigh", 32768), ("max", 65536)],
)
def test_an_effort_is_a_budget(effort: str, budget: int) -> None:
    assert effort_to_budget(effort, 200_000) == budget


@pytest.mark.parametrize(
    ("budget", "effort"),
    [
        (1, "low"),
        (1024, "low"),
        (1025, "medium"),
        (8192, "medium"),
        (8193, "high"),
        (24576, "high"),
        (24577, "xhigh"),
        (32768, "xhigh"),
        (32769, "max"),
        (10**9, "max"),
    ],
)
def test_a_budget_is_the_first_effort_that_is_not_below_it(budget: int, effort: str) -> None:
    assert budget_to_effort(budget) == effort


def test_half_of_the_limit_is_reserved_for_the_answer_by_default() -> None:
    assert effort_to_budget("high", 20_001) == 10_001
    assert effort_to_budget("high", 20_001, reserved=1) == 20_000
    assert effort_to_budget("high", 20_001, reserved=0) == 20_001
    assert effort_to_budget("low", 10) == 1024


def test_every_effort_but_none_has_a_budget_and_a_higher_one_no_smaller_budget() -> None:
    assert tuple(BUDGETS) == SCALE[1:]
    assert sorted(BUDGETS.values()) == list(BUDGETS.values())
