"""The benchmark of several workers: what it computes, and that it runs. Needs a C compiler."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from bench.gateway.running import Effort
from bench.gateway.tables import as_text
from bench.workers import (
    Results,
    Row,
    Run,
    cases,
    measured,
    options,
    output,
    possible,
    running,
    table,
    told_of_replacing,
)

from tests.needs import need

BRIEF = Effort(seconds=0.2, warm_up=0.2, longest=30.0, least_requests=5)


def run(rate: float, gateway_ms: float, others_ms: float, spread: list[int], errors: int = 0) -> Run:
    return Run(rate, gateway_ms, others_ms, spread, errors, bad=0)


def row(others_ms: float = 0.25) -> Row:
    one = [run(rate, 1.0, others_ms, [64]) for rate in (900.0, 1000.0, 1100.0)]
    return Row("small", one, [run(1400.0, 1.0, others_ms, [40, 24]), run(1520.0, 1.1, 0.25, [30, 34])])


@pytest.mark.parametrize(
    ("others_ms", "cores", "workers", "most"),
    [(0.25, 2, 2, 1.6), (0.25, 8, 2, 2.0), (1.0, 2, 2, 1.0), (1.0, 6, 4, 3.0)],
)
def test_what_is_possible_is_what_upstream_and_clients_leave(
    others_ms: float, cores: int, workers: int, most: float
) -> None:
    assert possible(row(others_ms), cores, workers) == pytest.approx(most)


def results(*rows: Row) -> Results:
    return Results("today", "python -m bench.workers", {}, cores=2, workers=2, rows=list(rows), replaced=[])


def test_a_row_tells_medians_what_was_possible_and_the_worst_spread() -> None:
    (cells,) = table(results(row())).rows
    assert cells == ("small", "1,000", "1,460", "1.46x", "1.60x", "91%", "1.00 / 1.05", "0.250", "1.90", "40 of 64")
    assert "40 of 64" in as_text(table(results(row())))


def test_wrong_answers_are_told() -> None:
    wrong = msgspec.structs.replace(row(), one=[run(1000.0, 1.0, 0.25, [64], errors=3)])
    assert table(results(wrong)).rows[0][0] == "small (3 wrong)"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ([], "bench/workers.json"),
        (["--quick"], ".cache/part/workers.json"),
        (["--only", "streams"], ".cache/part/workers.json"),
        (["--connections", "8"], ".cache/part/workers.json"),
        (["--quick", "--output", "elsewhere.json"], "elsewhere.json"),
    ],
)
def test_what_is_not_the_whole_run_is_written_elsewhere(arguments: list[str], place: str) -> None:
    assert output(options(arguments)).as_posix().endswith(place)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_one_worker_and_two_are_measured_and_the_two_replaced(tmp_path: Path) -> None:
    need("cc")
    need("taskset")
    with running(2, BRIEF, tmp_path) as bench:
        name, case = next(reversed(cases(8).items()))
        (found,) = measured(bench, {name: case}, repeat=2)
        for each in (*found.one, *found.many):
            assert (each.requests_per_second > 0, each.errors, each.bad) == (True, 0, 0)
            assert each.gateway_ms > each.others_ms > 0
            # None, where the clients had gone before anybody could look.
            assert sum(each.connections) <= case.connections
        assert max(len(each.connections) for each in found.one) <= 1
        assert max(len(each.connections) for each in found.many) <= 2
        replaced = bench.replace(8, seconds=2.5)
        assert replaced.streams >= 8
        assert replaced.lost == 0
    told = told_of_replacing(msgspec.structs.replace(results(found), replaced=[replaced]))
    assert told.startswith("All workers were replaced 1 times")
