"""The README's promise: first success in a minute, and every way it names to go on."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.e2e.agents.agents import AGENTS
from tests.e2e.wires import WIRES

README = ROOT / "README.md"


def test_the_first_command_is_make_demo() -> None:
    first = next(block for block in blocks(README) if block.language == "bash")
    assert first.commands[-1] == "make demo"


def test_it_shows_the_command_line_and_the_library() -> None:
    languages = [block.language for block in blocks(README) if not block.is_set_up]
    assert "bash" in languages
    assert "python" in languages


def test_it_links_to_the_documentation() -> None:
    assert "(docs/index.md)" in README.read_text()


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) < 125


def figure(row: str, pattern: str) -> int:
    """A figure in a row of the table of what was measured."""
    (line,) = [line for line in README.read_text().splitlines() if line.startswith(f"| {row}")]
    found = re.search(pattern, line)
    assert found, line
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("connections", [8, 64])
def test_the_cpu_beside_litellm_is_what_the_benchmark_found(connections: int) -> None:
    results = (ROOT / "bench" / "RESULTS.md").read_text()
    row = rf"CPU of a plain request, {connections} connections: LiteLLM takes \|[^|]*\| (\d+)x"
    found = re.search(row, results)
    assert found
    shown = figure("CPU of a request", rf"\*\*(\d+) times\*\* (?:as much )?with {connections}\b")
    assert shown == int(found[1])


def test_the_date_of_the_benchmark_is_that_of_its_results() -> None:
    date = re.search(r"on (\d{4}-\d\d-\d\d)", (ROOT / "bench" / "RESULTS.md").read_text())
    assert date
    assert f"{date[1]}) | `make bench`" in README.read_text()


@pytest.mark.parametrize(("row", "folder"), [("bugs that other", "tests/pitfalls"), ("laws", "tests/laws")])
def test_there_are_as_many_tests_as_it_says(row: str, folder: str) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", folder]
    counted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    shown = figure(row, r"\*\*over ([\d,]+) tests\*\*")
    assert shown < int(counted.split()[0]) < 1.2 * shown


def test_the_agents_have_as_many_runs_as_it_says() -> None:
    assert figure("agents", r"\*\*(\d+) runs\*\*") == len(AGENTS) * len(WIRES)
    assert {agent.name.split("-")[0] for agent in AGENTS} == {"claude", "codex", "gemini"}


def test_what_it_says_measures_a_figure_exists() -> None:
    commands = re.findall(r"`pytest (\S+)`", README.read_text())
    assert len(commands) == 3
    for command in commands:
        assert (ROOT / command).exists()
