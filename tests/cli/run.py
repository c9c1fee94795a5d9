"""Running the command line: inside the test process, or by a shell on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from click.testing import CliRunner, Result

from toolglot.cli.app import app
from toolglot.cli.failures import TRACEBACK


def run(*arguments: str, data: bytes | str = b"") -> Result:
    """What the command wrote and how it ended; an exception that nobody handled fails the test."""
    return CliRunner().invoke(app, arguments, input=data, env={TRACEBACK: "1"}, catch_exceptions=False)


class Shown(NamedTuple):
    status: int
    output: str
    """Standard output and standard error, as a person sees them."""


def environment_of(folder: Path) -> dict[str, str]:
    """That of a person who has `toolglot` on the path, and a home without keys and files."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known = {
        name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL"))
    }
    return {**known, "PATH": path, "HOME": str(folder), "COLUMNS": "100", "NO_COLOR": "1"}


@contextmanager
def in_background(command: str, folder: Path, more: Mapping[str, str] = {}) -> Iterator[None]:
    """A server that a person has started in another terminal, from when it says that it is ready."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder,
        env={**environment_of(folder), **more},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said: list[str] = []
        while " is ready at " not in "".join(said):
            line = process.stderr.readline()
            assert line, f"{command}: {''.join(said)}"
            said.append(line)
        rest = Thread(target=process.stderr.read)  # else its log would fill the pipe
        rest.start()
        try:
            yield
        finally:
            process.terminate()
            rest.join()


ERASED = re.compile(r"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)|\r\x1b\[K")
"""A line that is erased again, such as progress."""


def on_terminal(script: str, folder: Path, more: Mapping[str, str] = {}, *, raw: bool = False) -> Shown:
    """What a person sees who types these commands, with `toolglot` on the path and `more` in the environment.
    `raw`: with what is erased again."""
    environment = {**environment_of(folder), **more}
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # else every line end would become two characters
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = bytearray()
    try:
        while piece := os.read(ours, 65536):
            output += piece
    except OSError:  # the other side of a terminal has closed: its end of file
        pass
    os.close(ours)
    text = output.decode()
    return Shown(process.wait(), text if raw else ERASED.sub("", text))
