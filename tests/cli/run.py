"""Running the command line: inside the test process, or by a shell on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tty
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner, Result

from toolglot.cli.app import app


def run(*arguments: str, data: bytes | str = b"") -> Result:
    """What the command wrote and how it ended; an exception that nobody handled fails the test."""
    return CliRunner().invoke(app, arguments, input=data, catch_exceptions=False)


class Shown(NamedTuple):
    status: int
    output: str
    """Standard output and standard error, as a person sees them."""


def on_terminal(script: str, folder: Path) -> Shown:
    """What a person sees who types these commands, with `toolglot` on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
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
    return Shown(process.wait(), output.decode())
