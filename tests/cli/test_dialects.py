"""`toolglot dialects`, `toolglot --version`, and what happens when a dependency is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.run import run
from toolglot.cli.dialects import ROWS
from toolglot.dialect import Capabilities
from toolglot.dialects import DIALECTS


def test_the_table_has_every_dialect_and_every_concept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = run("dialects")
    assert result.exit_code == 0
    for word in (*DIALECTS, *(label for label, _ in ROWS)):
        assert word in result.stdout


def test_the_table_comes_from_the_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("dialects").stdout
    for dialect in DIALECTS.values():
        assert f"up to {dialect.can.name_length}" in shown


def test_as_json_every_capability_is_told() -> None:
    result = run("dialects", "--json")
    told = json.loads(result.stdout)
    assert list(told) == sorted(DIALECTS)
    for name, dialect in DIALECTS.items():
        assert set(told[name]["can"]) == set(Capabilities.__struct_fields__)
        assert told[name]["can"]["fields"] == sorted(dialect.can.fields)
        assert told[name]["title"] == dialect.title


def test_as_markdown_it_is_a_table_with_a_row_for_each_concept() -> None:
    head, line, *rows = run("dialects", "--markdown").stdout.splitlines()
    assert head == f"|  | {' | '.join(DIALECTS)} |"
    assert set(line) <= set("|- ")
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [label for label, _ in ROWS]


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"toolglot, version {version('toolglot')}\n"


def test_help_names_every_command() -> None:
    result = run("--help")
    for command in ("translate", "lint-stream", "dialects"):
        assert command in result.stdout


@pytest.mark.parametrize(("missing", "arguments"), [("click", ["--version"]), ("rich", ["dialects"])])
def test_a_missing_dependency_is_told_in_a_sentence(missing: str, arguments: list[str]) -> None:
    hidden = f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = {arguments!r}"
    program = f"{hidden}\nimport toolglot.cli\ntoolglot.cli.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"toolglot: the command line needs {missing}: pip install click rich\n"
