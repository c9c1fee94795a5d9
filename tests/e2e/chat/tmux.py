"""A program in a real terminal, which tmux is: keys go in, and what a person would see comes out."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import FAILSAFE

WIDTH, HEIGHT = 100, 50


class Screen:
    """One window. Whatever the program writes there also wakes up whoever waits for it to show something."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self._pipe = folder / "written"
        os.mkfifo(self._pipe)
        self._written = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-f", "/dev/null", "-S", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=FAILSAFE).stdout

    def start(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str],
        size: tuple[int, int] = (WIDTH, HEIGHT),
    ) -> None:
        """Run the command; when it has ended, its exit status is shown."""
        variables = [f"{name}={value}" for name, value in environment.items()]
        # It begins when the pipe is there, so that nothing of it is missed.
        program = shlex.join(["env", "-i", *variables, *command])
        # A Ctrl-C that comes when it has ended already ends nothing else.
        shell = f"""trap : INT; read; {program}; echo "ended with $?"; trap '' INT; exec cat"""
        width, height = size
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder), "bash", "-c", shell)
        self.tmux("pipe-pane", f"cat > {shlex.quote(str(self._pipe))}")
        self.tmux("send-keys", "Enter")

    def close(self) -> None:
        self.tmux("kill-server")
        os.close(self._written)

    def seen(self, *, styled: bool = False) -> str:
        """All that was shown, also what has left the screen at its top; with its escape sequences if `styled`."""
        return self.tmux("capture-pane", "-p", "-S", "-", *(["-e"] if styled else [])).rstrip("\n")

    def visible(self) -> str:
        return self.tmux("capture-pane", "-p").rstrip("\n")

    def styled_lines(self) -> list[str]:
        """The lines of the screen with their escape sequences and the spaces at their ends."""
        return self.tmux("capture-pane", "-p", "-e", "-N").split("\n")[:-1]

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def enter(self, line: str) -> None:
        self.type(line)
        self.tmux("send-keys", "Enter")

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def wait_for(self, text: str, count: int = 1) -> str:
        """Until this is shown so many times; returns what is shown then."""
        return self.until(lambda seen: seen.count(text) >= count, text)

    def until(self, is_there: Callable[[str], bool], what: str, press: str = "") -> str:
        """Until the screen is as it should be. `press` is a key that is pressed again while nothing happens: Python
        hears a Ctrl-C that comes right before it waits for a key only with the next one."""
        deadline = time.monotonic() + FAILSAFE
        while not is_there(seen := self.seen()):
            assert time.monotonic() < deadline, f"no {what!r} on the screen:\n{seen}"
            ready, _, _ = select.select([self._written], [], [], 1.0)
            if ready:
                os.read(self._written, 65536)
            elif press:
                self.press(press)
        return seen


@contextmanager
def a_screen() -> Iterator[Screen]:
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        screen = Screen(Path(folder))
        try:
            yield screen
        finally:
            screen.close()
