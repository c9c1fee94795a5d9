"""The benchmarks of the core run, and cover every pair of dialects and every text format."""

from __future__ import annotations

from pathlib import Path

from bench.agents import main as agents
from bench.core import IN_JSON, main
from bench.gateway_cost import main as gateway_cost
from bench.hostile_text import main as hostile_text
from bench.prefixes import main as prefixes
from bench.textcalls import main as textcalls

from tests.exchanges import PAIRS
from tests.forms import is_json
from toolglot.textcalls import FORMATS


def test_the_benchmark_runs_in_quick_mode() -> None:
    written: list[str] = []
    main(["--quick"], written.append)
    text = "".join(written)
    for first, second in PAIRS:
        assert text.count(f"{first:18}{second:18}") == (3 if is_json(first) else 1)  # two compare with JSON


def test_the_benchmark_of_agents_measures_each_captured_request_for_every_upstream(tmp_path: Path) -> None:
    body = '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}'
    (tmp_path / "asked-1.json").write_text(f'{{"path":"/v1/messages?beta=true","body":{body}}}')
    (tmp_path / "counted-1.json").write_text(f'{{"path":"/v1/messages/count_tokens","body":{body}}}')
    (tmp_path / "notes.json").write_text("[]")
    written: list[str] = []
    agents([str(tmp_path), "asked", "--runs", "1"], written.append)
    measured = [line.split() for line in written[1:]]
    assert [(line[0], line[1]) for line in measured] == [("asked-1", name) for name in IN_JSON]
    assert all(float(cell) > 0 for line in measured for cell in line[2:])


def test_the_gateways_cost_is_measured_for_every_pair_and_each_captured_request(tmp_path: Path) -> None:
    body = '{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hello"}]}'
    (tmp_path / "asked-1.json").write_text(f'{{"path":"/v1/messages","body":{body}}}')
    for how in ("--calls", "--runs=1"):
        written: list[str] = []
        gateway_cost([str(tmp_path), "asked", how], written.append)
        measured = [line.split() for line in written[1:]]
        assert [line[0] for line in measured] == [*IN_JSON, "asked-1"]
        assert all(len(line) == 2 + len(IN_JSON) and float(cell) > 0 for line in measured for cell in line[2:])


def test_the_benchmark_of_text_calls_runs_in_quick_mode() -> None:
    written: list[str] = []
    textcalls(["--quick"], written.append)
    measured = {line.split()[0]: line.split()[1:] for line in "".join(written).splitlines()[2:]}
    assert measured.keys() >= set(FORMATS)
    assert all(float(value) > 0 for name in FORMATS for value in measured[name])


def test_the_benchmark_of_hostile_texts_runs_in_quick_mode() -> None:
    written: list[str] = []
    assert hostile_text(["--quick", "hermes_json"], written.append) == 0
    assert all(float(line.split()[0]) > 0 for line in written[1:])


def test_the_benchmark_of_prefixes_tells_policies_that_cut_often_from_those_that_do_not() -> None:
    written: list[str] = []
    prefixes(["60"], written.append)
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in written[1:]]
    cuts = {name: int(count) for name, count, _ in rows}
    shares = {name: int(share.rstrip("%")) for name, _, share in rows}
    assert cuts["none"] == 0
    assert 0 < cuts["`max_messages = 100`"] < cuts["`max_messages = 100`, `cut_to = 1`"]
    assert shares["none"] > shares["`max_messages = 100`"] > shares["`max_messages = 100`, `cut_to = 1`"]
