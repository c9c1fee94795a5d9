"""`make demo` shows both wires of three clients, fits a terminal, and ends with commands that run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import environment_of, in_background, on_terminal
from tests.docs.markdown import ROOT
from toolglot import demo

STYLE = re.compile(r"\x1b\[\d*m")
RECEIPT_LINE = re.compile(r"^    (?:loss|note): ", re.MULTILINE)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `make demo` prints, without its set-up: that would install this checkout in an environment that others may
    share."""
    python = Path(sys.executable)
    command = ["make", "--no-print-directory", "demo", f"BIN={python.parent}", "INSTALLED="]
    hidden = {"MAKEFLAGS", "MAKELEVEL", "NO_COLOR"}
    known = environment_of(tmp_path_factory.mktemp("home"))
    # In a terminal of somebody who has just cloned, `toolglot` is not on the path.
    path = {"PATH": os.environ["PATH"].replace(f"{python.parent}{os.pathsep}", "")}
    environment = {name: value for name, value in known.items() if name not in hidden} | path
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_first_translation_is_shown_from_the_request_to_the_answer(shown: str) -> None:
    detail = shown.partition("\n1. ")[2].partition("\n2. ")[0]
    assert detail.startswith("An Anthropic client on a model behind OpenAI Chat Completions\n")
    heads = re.findall(r"^(?:The|Came|Receipt)\b.*:$", detail, re.MULTILINE)
    assert [head.partition(" (")[0].rstrip(":") for head in heads] == [
        "The client sent",
        "The upstream got",
        "The upstream answered",
        "The client got",
        "Receipt",
        "The client ran both tools, one of them failed, and it sent the results",
        "The upstream got",
        "Receipt",
        heads[-1].rstrip(":"),
    ]
    assert re.fullmatch(r"The answer was streamed: the upstream sent \d+ events, and the client got \d+:", heads[-1])
    ids = re.findall(r'"(?:id|tool_use_id|tool_call_id)": "(call_\w+)"', detail)
    assert ids == ids[:2] * 4, "two calls, on both wires, and their results"
    assert '"content": "Error: the station does not answer"' in detail
    assert detail.rstrip().endswith("- weather (Oslo): Error: the station does not answer")


@pytest.mark.parametrize(
    ("title", "words"),
    [
        (
            "2. An OpenAI client on a model behind Google Gemini",
            ["functionCall", "function", "role", "functionResponse"],
        ),
        (
            "3. A Gemini client on a model behind Anthropic Messages",
            ["tool_use", "functionCall", "functionResponse", "tool_result"],
        ),
    ],
)
def test_the_others_are_shown_by_one_call_and_its_result(shown: str, title: str, words: list[str]) -> None:
    brief = shown.partition(f"\n{title}\n")[2].partition("Receipt:")[0]
    rows = re.split(r"^    (?=[cu])", brief, flags=re.MULTILINE)[1:]
    assert [row.split("  ")[0] for row in rows] == ["upstream sent", "client got", "client sent", "upstream got"]
    for row, word in zip(rows, words, strict=True):
        assert f'"{word}"' in row
        assert "call_" in row


def test_every_line_of_a_receipt_is_explained(shown: str) -> None:
    assert len(RECEIPT_LINE.findall(shown)) == 5
    for explanation in demo.EXPLANATIONS.values():
        assert shown.count(f"\n      {explanation}\n") == 1


def test_the_demo_fits_a_terminal_of_eighty_columns(shown: str) -> None:
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line != line.rstrip()] == []


def test_colors_are_for_terminals_that_want_them(shown: str, tmp_path: Path) -> None:
    command = f"cd {ROOT}; export PATH='{os.environ['PATH']}'; {{}} {sys.executable} -m toolglot.demo"
    assert "\x1b" not in shown
    plain = on_terminal(command.format("NO_COLOR=1"), tmp_path).output
    colored = on_terminal(command.format("NO_COLOR= TERM=xterm"), tmp_path).output
    assert "\x1b" not in plain
    assert STYLE.sub("", colored) == plain != colored


def test_the_commands_at_the_end_run_as_printed(shown: str, tmp_path: Path) -> None:
    (head, *commands) = re.split(r"^  # .*\n", shown.partition("run as printed\n")[2], flags=re.MULTILINE)
    assert (head.strip(), len(commands)) == ("", len(demo.COMMANDS))
    *others, server = commands
    for command in others:
        done = on_terminal(f"cd {ROOT}; {command}", tmp_path)
        assert done.status == 0, (command, done.output)
        assert done.output
    with in_background(f"env -C {ROOT} {server.strip()} --port 0 --no-discover", tmp_path):
        pass
