"""`toolglot dialects`, `toolglot --version`, and what happens when a dependency is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.run import run
from toolglot.capabilities import PLACES
from toolglot.cli.dialects import CONCEPTS, PARAMETERS, readable_patterns
from toolglot.dialects import DIALECTS

LABELS = [label for label, _ in (*CONCEPTS, *PARAMETERS)]


@pytest.fixture(params=["80", "200"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are printed into so many columns."""
    monkeypatch.setenv("COLUMNS", request.param)
    result = run("dialects")
    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_the_table_has_every_dialect_and_every_concept_in_any_width(table: list[str]) -> None:
    head = " ".join(table[:4])
    for name in DIALECTS:
        assert all(part in head for part in name.split("_"))
    begun = [line.strip() for line in table]
    for label in LABELS:
        assert any(line.startswith(label) for line in begun), label


def test_no_word_of_the_table_is_cut(table: list[str]) -> None:
    shown = "\n".join(table)
    assert "…" not in shown
    for dialect in DIALECTS.values():
        assert f"up to {dialect.can.names.max_length}" in shown
        assert dialect.can.names.pattern.strip("[]+").removeprefix("A-Za-z0-9") in shown


def test_it_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run("dialects").stdout.splitlines())) <= 80


def test_a_parameter_is_a_row_of_yes_and_no(table: list[str]) -> None:
    (row,) = [line.split() for line in table if line.strip().startswith("seed ")]
    assert row == [
        "seed",
        *("yes" if "seed" in dialect.can.parameters.fields else "no" for dialect in DIALECTS.values()),
    ]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("mistral|ministral", ["mistral*", "ministral*"]),
        (r"(^|/)(gpt-(?!oss)|o[1-9](-|$))", ["gpt-* (not gpt-oss*)", "o1+"]),
        (r"(^|/)gpt-(5\.([4-9]|\d\d)|[6-9]|\d\d)", ["gpt-5.4+", "gpt-6+"]),
        (r"claude-(?:[a-z]+-4[-.](?:[89](?!\d)|[1-9]\d(?!\d))|mythos)", ["claude-*-4-8+", "claude-mythos*"]),
        (r"claude-[a-z]+-4(?!\d)(?![-.](?:[6-9](?!\d)|[1-9]\d))", ["claude-*-4* (not claude-*-4-6+)"]),
        (r"gemini-(2\.5|[3-9][^/]*)-pro", ["gemini-2.5-pro*", "gemini-3+-pro*"]),
        (r"gemini-[12]\b", ["gemini-[12]*"]),
    ],
)
def test_a_pattern_of_models_is_written_as_people_write_it(pattern: str, names: list[str]) -> None:
    assert readable_patterns(pattern) == names


def test_every_reason_why_models_differ_stands_behind_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    told = [line.strip() for line in run("dialects").stdout.splitlines()]
    for dialect in DIALECTS.values():
        for rule in dialect.models:
            names = ", ".join(readable_patterns(rule.pattern))
            assert f"{names}: {rule.why}" in told
            assert not set(names) & set("?|\\^$!#"), names


def test_what_only_some_models_have_is_told_as_that(table: list[str]) -> None:
    assert "| custom tools | yes, some models | yes | no | no |" in run("dialects", "--markdown").stdout
    assert any("some" in line for line in table)


def test_as_json_every_capability_is_told() -> None:
    result = run("dialects", "--json")
    told = json.loads(result.stdout)
    assert list(told) == sorted(DIALECTS)
    for name, dialect in DIALECTS.items():
        assert set(told[name]["can"]) == set(PLACES)
        assert told[name]["can"]["fields"] == sorted(dialect.can.parameters.fields)
        assert told[name]["title"] == dialect.title


def test_as_markdown_it_is_a_table_with_a_row_for_each_concept() -> None:
    head, line, *rows = run("dialects", "--markdown").stdout.splitlines()
    assert head == f"|  | {' | '.join(DIALECTS)} |"
    assert set(line) <= set("|- ")
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == LABELS


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"toolglot, version {version('toolglot')}\n"


def test_help_names_every_command() -> None:
    result = run("--help")
    for command in ("translate", "lint-stream", "dialects"):
        assert command in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2]


@pytest.mark.parametrize(("command", "names"), [("translate", (*DIALECTS, "mcp")), ("lint-stream", tuple(DIALECTS))])
def test_the_help_of_a_command_names_the_dialects(command: str, names: tuple[str, ...]) -> None:
    assert ", ".join(names) in " ".join(run(command, "--help").stdout.split())


def test_the_help_of_translate_has_an_example_on_one_line() -> None:
    example = "  toolglot translate --from openai_chat --to anthropic --kind request a.json"
    assert example in run("translate", "--help").stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("toolglot translate --from open", ["openai_chat", "openai_responses"]),
        ("toolglot translate --to openai-r", ["openai_responses"]),
        ("toolglot translate --to m", ["mcp"]),
        ("toolglot lint-stream --dialect m", []),
        ("toolglot translate --kind str", ["stream"]),
    ],
)
def test_a_shell_completes_dialects_and_kinds(words: str, completed: list[str]) -> None:
    last = len(words.split()) - 1
    environment = {"_TOOLGLOT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(last)}
    done = subprocess.run(
        [sys.executable, "-m", "toolglot"], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert [line.partition(",")[2] for line in done.stdout.split()] == completed


def test_a_missing_dependency_is_told_in_a_sentence() -> None:
    hidden = "import sys; sys.modules['click'] = None; sys.argv[1:] = ['--version']"
    program = f"{hidden}\nimport toolglot.cli\ntoolglot.cli.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "toolglot: the command line needs click: pip install click\n"
