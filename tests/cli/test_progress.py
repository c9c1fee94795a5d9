"""Progress of long work: on a terminal alone, and gone at the end."""

from __future__ import annotations

import io
import re
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.run import on_terminal, run
from toolglot.cli.progress import ERASE, Progress

SAMPLES = Path(__file__).parents[1] / "recordings" / "samples"


class Terminal(io.StringIO):
    """A terminal that says when something was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.drawn.set()


def test_a_terminal_shows_the_step_until_the_work_ends() -> None:
    terminal = Terminal()
    with Progress("replaying", 9, stream=terminal, environ={}, delay=0) as progress:
        progress.step("a\x1b[2J.jsonl")
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
        with progress.hidden():
            assert terminal.getvalue().endswith(ERASE)
            terminal.write("a: the same\n")
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    text = terminal.getvalue()
    assert f"{ERASE}replaying 1 of 9: a\\x1b[2J.jsonl (0 s)" in text
    assert f"{ERASE}a: the same\n{ERASE}" in text
    assert text.endswith(ERASE)


def test_a_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    with Progress("reading", 9, stream=terminal, environ={}, delay=0) as progress:
        progress.step("日本語" * 20)
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    assert "reading 1 of 9: 日…" in terminal.getvalue()


@pytest.mark.parametrize(("stream", "environ"), [(io.StringIO(), {}), (Terminal(), {"TERM": "dumb"})])
def test_other_output_has_no_progress(stream: io.StringIO, environ: dict[str, str]) -> None:
    threads = threading.active_count()
    with Progress("replaying", 1, stream=stream, environ=environ, delay=0) as progress:
        progress.step("a")
        assert threading.active_count() == threads
    assert stream.getvalue() == ""


def test_quick_work_shows_nothing() -> None:
    terminal = Terminal()
    with Progress("replaying", 1, stream=terminal, environ={}, delay=60) as progress:
        progress.step("a")
    assert terminal.getvalue() == ""


SLOW = """
from toolglot.cli import main
from toolglot.cli.progress import Progress
Progress.__init__.__kwdefaults__["delay"] = 0
begin, read_line, shown = Progress.step, Progress.line, set()
def line(self):
    shown.add(self._count)
    return read_line(self)
def step(self, name):
    begin(self, name)
    while self._count not in shown:
        self._ended.wait(0.01)
Progress.step, Progress.line = step, line
main()
"""
"""Every step takes until it is shown."""


def test_replaying_a_folder_shows_progress_on_a_terminal_and_leaves_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = f"{sys.executable} slow.py replay {SAMPLES}"
    shown = on_terminal(command, tmp_path, raw=True)
    assert re.search(r"replaying 1 of 3: retry_and_error\.exchange\.jsonl \(\d+ s\)", shown.output)
    assert re.search(r"replaying 3 of 3: whole\.exchange\.jsonl \(\d+ s\)", shown.output)
    assert on_terminal(command, tmp_path).output == run("replay", str(SAMPLES)).stdout
