"""Keyboard input: lines with editing and history, if the system supports them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

MAX_HISTORY = 1_000
CONTINUATION = "... "


def _module(name: str) -> ModuleType | None:
    """Import a module that not every system has."""
    try:
        return __import__(name)
    except ImportError:
        return None


class Keyboard:
    """Reads lines from the terminal. `history` is a file; `complete` returns completions of a line."""

    def __init__(self, history: Path, complete: Callable[[str], list[str]]) -> None:
        self._history = history
        self._complete = complete
        self._readline: Any = _module("readline")
        self._termios: Any = _module("termios")
        self._usual: Any = None
        self._found: list[str] = []

    def open(self) -> None:
        readline = self._readline
        if readline is None:
            return
        readline.set_auto_history(False)
        readline.set_completer_delims("")
        readline.set_completer(self._completion)
        # macOS has libedit instead of readline, with other settings.
        is_edit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_edit else "tab: complete")
        with suppress(OSError):
            readline.read_history_file(self._history)

    def close(self) -> None:
        """Restore the terminal, and save the history for the user only."""
        self.show_input()
        if self._readline is None:
            return
        self._readline.set_history_length(MAX_HISTORY)
        with suppress(OSError):
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.write_history_file(self._history)

    def read(self, prompt: str) -> str:
        """Read the user's text: a line, and further ones while each ends with a backslash. Raises `EOFError`."""
        lines = [_without_surrogates(input(prompt))]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(_without_surrogates(input(CONTINUATION)))
        if self._readline is not None and (said := " ".join(lines)).strip():
            self._readline.add_history(said.replace("\n", " "))
        return "\n".join(lines)

    def ask(self, prompt: str) -> str:
        """Read the answer to a question. What was typed before the question does not count."""
        if self._termios is not None and sys.stdin.isatty():
            self._termios.tcflush(sys.stdin.fileno(), self._termios.TCIFLUSH)
        return _without_surrogates(input(prompt))

    def hide_input(self) -> None:
        """Hide further input, so that it does not appear inside an answer."""
        termios = self._termios
        if termios is None or not sys.stdin.isatty() or self._usual is not None:
            return
        self._usual = termios.tcgetattr(sys.stdin.fileno())
        changed = termios.tcgetattr(sys.stdin.fileno())
        changed[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, changed)

    def show_input(self) -> None:
        """Show input again."""
        if self._usual is not None:
            usual, self._usual = self._usual, None
            self._termios.tcsetattr(sys.stdin.fileno(), self._termios.TCSADRAIN, usual)

    def _completion(self, text: str, number: int) -> str | None:
        if number == 0:
            self._found = self._complete(text)
        return self._found[number] if number < len(self._found) else None


def _without_surrogates(line: str) -> str:
    """Remove lone surrogates that a terminal with another encoding may send."""
    return line.encode("utf-8", "replace").decode("utf-8")
