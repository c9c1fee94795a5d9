"""What `toolglot serve` prints besides its log: with `--log json`, every line is JSON."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import environment_of
from tests.waiting import FAILSAFE

STRAY = """
import gc, logging, sys, threading, warnings
from toolglot.server import run
ready = run.GatewayServer.startup
class Broken:
    def __del__(self): raise OSError("in a destructor")
async def startup(self, sockets=None):
    await ready(self, sockets)
    warnings.warn("of a library")
    logging.getLogger("asyncio").error("a task has failed")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    Broken()
    self.should_exit = True
run.GatewayServer.startup = startup
from toolglot.__main__ import main
main()
"""
CRASH = """
from toolglot.server.workers import serve
def run(*arguments, **options): raise RuntimeError("a bug")
serve.run = run
from toolglot.__main__ import main
main()
"""


def serve(folder: Path, *options: str, script: str = "") -> tuple[int, list[dict[str, Any]]]:
    """Run a gateway until it says that it is ready, or ends. Returns its status and its lines."""
    program = [sys.executable, *(("-c", script) if script else ("-m", "toolglot"))]
    with subprocess.Popen(
        [*program, "serve", "--log", "json", "--no-discover", "--port", "0", *options],
        env=environment_of(folder),
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if "needs no upstream" in line and not script:
                os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.read() == ""
        return process.wait(FAILSAFE), [json.loads(line) for line in lines]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_banner_is_json(tmp_path: Path, workers: str) -> None:
    status, lines = serve(tmp_path, "--workers", workers)
    assert status == 0
    assert any(line["message"].startswith("toolglot is ready at http://127.0.0.1:") for line in lines)
    assert {line["level"] for line in lines} == {"info"}


def test_warnings_and_failures_of_others_are_json(tmp_path: Path) -> None:
    _, lines = serve(tmp_path, script=STRAY)
    told = [line for line in lines if line["level"] != "info"]
    assert [line["message"].split(":")[0] for line in told][1:3] == ["a task has failed", "a thread has failed"]
    assert "of a library" in told[0]["message"]
    assert "ZeroDivisionError" in told[2]["traceback"]
    assert "in a destructor" in told[3]["traceback"]


def test_a_bug_is_one_line_with_its_traceback(tmp_path: Path) -> None:
    status, (line,) = serve(tmp_path, script=CRASH)
    assert (status, line["level"], line["message"]) == (70, "error", "internal error: RuntimeError: a bug")
    assert line["traceback"].startswith("Traceback (most recent call last)")


def test_what_is_wrong_with_the_setup_is_json(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[server]\nport = 'x'\nhosts = 1\n")
    status, lines = serve(tmp_path, "--config", "wrong.toml")
    assert (status, {line["level"] for line in lines}) == (2, {"error"})
    assert len(lines) == 2
    assert serve(tmp_path, "--key-env", "NOT_THERE")[0] == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, (line,) = serve(tmp_path, "--port", str(taken.getsockname()[1]))
    assert status == 2
    assert line["message"].startswith("cannot listen on 127.0.0.1:")
