"""The benchmark of the transports: what it computes, and that its gateways answer. Needs a C compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from urllib.request import urlopen

import pytest
from bench.gateway.cases import ANTHROPIC_TO_CHAT
from bench.gateway.checks import faults
from bench.gateway.native import Tools
from bench.gateway.peers.record import Here
from bench.gateway.processes import cores
from bench.gateway.results import About, Results
from bench.gateway.running import started
from bench.transports.__main__ import names, options, output, wishes
from bench.transports.candidates import CANDIDATES, search_path
from bench.transports.conformance import Verdict, tables, verdict
from bench.transports.differences import AIOHTTP, DIFFERENCES
from bench.transports.figures import CASES, table

from tests.bench.samples import measured, row, standing
from tests.docs.markdown import ROOT
from tests.needs import need
from tests.upstream.conformance.ways import WAYS, chosen

COSTS = {"express": 1.0, "lean": 10.0, "aiohttp": 12.0, "pyreqwest": 11.0}


def results() -> Results:
    return Results(
        date="today",
        machine={},
        settings={},
        gateways=[About(name, CANDIDATES[name].title, "1.2") for name in COSTS],
        rows=[row(name, case, measured(cost)) for case in CASES for name, cost in COSTS.items()],
        standings=[standing(name, cost) for name, cost in COSTS.items() if name != "pyreqwest"],
    )


def test_every_figure_is_told_of_every_transport() -> None:
    found = table(results())
    assert found.head == ("", "lean, express lane", "lean", "aiohttp", "pyreqwest")
    cells = {line[0]: line[1:] for line in found.rows}
    assert cells["CPU of a plain request, 8 connections: ms"] == ("0.020", "0.200", "0.240", "0.220")
    assert cells["CPU of 100,000 chunks at once, 8 connections: s"] == ("0.100", "1.00", "1.20", "1.10")
    assert cells["memory of a slow stream, of 1,000: KB"] == ("5.00", "50.0", "60.0", "-")
    assert cells["it stands on"] == ("httptools 1.2", "httptools 1.2", "aiohttp 1.2", "pyreqwest 1.2")


def test_nothing_measured_is_no_number() -> None:
    nothing = Results("", {}, {}, [About("lean", "lean")], [], [])
    assert {line[1] for line in table(nothing).rows} == {"-", "httptools -"}


@pytest.mark.parametrize(
    ("arguments", "transports", "place"),
    [
        ([], 4, "bench/transports.json"),
        (["--quick"], 4, ".cache/part/transports.json"),
        (["--only", "lean, aiohttp"], 2, ".cache/part/transports.json"),
        (["--output", "elsewhere.json"], 4, "elsewhere.json"),
    ],
)
def test_options_choose_what_is_measured_and_where_it_is_written(
    arguments: list[str], transports: int, place: str
) -> None:
    wanted = options(arguments)
    assert len(wishes(wanted).peers) == transports
    assert output(wanted).as_posix().endswith(place)


def test_an_unknown_transport_is_named() -> None:
    with pytest.raises(SystemExit, match="there is no transport 'curl': express, lean, aiohttp, pyreqwest"):
        names(options(["--only", "curl"]))


def test_what_was_installed_for_a_transport_alone_is_found_by_python(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    assert search_path(tmp_path).split(":") == [str(ROOT), str(packages)]
    assert search_path(tmp_path / "nowhere") == str(ROOT)


# Conformance

REPORT = b"""<testsuites><testsuite>
<testcase name="test_calls[aiohttp]"/>
<testcase name="test_an_answer_ends_where_it_says[aiohttp-chunks]"/>
<testcase name="test_an_answer_ends_where_it_says[aiohttp-bare line feeds]"><failure message="taken"/></testcase>
<testcase name="test_new[aiohttp]"><error message="broken&#10;somewhere"/></testcase>
</testsuite></testsuites>"""


def test_what_fails_is_told_by_its_reason_and_what_has_none_as_unknown() -> None:
    found = verdict("aiohttp", REPORT)
    assert found.passed == {"test_calls", "test_an_answer_ends_where_it_says[chunks]"}
    assert found.unknown == ["test_new"]
    assert found.failed["test_new"] == "broken"
    counts, reasons = tables([found])
    assert counts.rows == [("aiohttp", "4", "2", "2")]
    assert reasons.rows == [("1", next(iter(AIOHTTP))), ("1", "not known yet")]


def test_a_transport_that_passes_everything_has_no_reasons() -> None:
    assert len(tables([Verdict("lean", frozenset({"test_calls"}), {})])) == 1


def suite() -> Iterator[tuple[str, str]]:
    """The names of the tests, each with the text of its module."""
    for path in sorted((ROOT / "tests" / "upstream" / "conformance").glob("test_*.py")):
        module = import_module(f"tests.upstream.conformance.{path.stem}")
        yield from ((name, path.read_text()) for name in vars(module) if name.startswith("test_"))


@pytest.mark.parametrize("name", DIFFERENCES)
def test_every_case_with_a_reason_is_one_of_the_suite(name: str) -> None:
    tests = dict(suite())
    for case in (case for cases in DIFFERENCES[name].values() for case in cases):
        test, _, parameter = case.rstrip("]").partition("[")
        assert test in tests
        words = re.findall(r"[A-Za-z ,/.0-9]+", parameter.removeprefix("POST-False-"))
        assert parameter == "True" or all(word in tests[test] for word in words)


def test_the_suite_is_run_for_the_way_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLGLOT_TEST_WAY", raising=False)
    assert chosen() == WAYS
    monkeypatch.setenv("TOOLGLOT_TEST_WAY", "bench.transports.ways:AIOHTTP")
    (way,) = chosen()
    assert (way.name, way.is_exact) == ("aiohttp", True)


# The gateways


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    need("cc")
    need("taskset")
    return Tools(tmp_path_factory.mktemp("bin"), cores())


@pytest.mark.parametrize("name", [name for name, peer in CANDIDATES.items() if isinstance(peer.install, Here)])
def test_a_gateway_on_each_transport_answers_and_only_one_takes_the_express_lane(
    tools: Tools, tmp_path: Path, name: str
) -> None:
    with (
        tools.upstream() as upstream,
        started(CANDIDATES[name], upstream.port, tmp_path / "home", tmp_path / "run", tools.cores.gateway) as gateway,
    ):
        for _ in range(2):  # the first request of a model opens the lane
            assert faults(gateway, ANTHROPIC_TO_CHAT) == []
        with urlopen(f"http://127.0.0.1:{gateway.place.port}/metrics") as answer:
            counted = re.findall(r"^toolglot_express_total\S* (\d+)", answer.read().decode(), re.MULTILINE)
    assert bool(sum(map(int, counted))) == (name == "express")
