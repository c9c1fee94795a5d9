"""`toolglot mcp`, as far as its options go. What it serves is tested in `tests/tool_server`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--key-env", "HOME"), "--key-env requires --http"),
        (("--address-file", "x"), "--address-file requires --http"),
        (("--config", "x.toml"), "--config requires --allow-ask"),
        (("--no-discover",), "--discover requires --allow-ask"),
        (("--ask-timeout", "5"), "--ask-timeout requires --allow-ask"),
        (("--allow-ask", "--ask-timeout", "0"), "--ask-timeout"),
        (("--http", "somewhere"), "'somewhere' is not HOST:PORT"),
        (("--http", "127.0.0.1:99999"), "is not HOST:PORT"),
        (
            ("--http", "127.0.0.1:0", "--key-env", "NO_SUCH_VARIABLE"),
            "the environment variable NO_SUCH_VARIABLE is not set",
        ),
        (("--http", "0.0.0.0:0"), "refusing to serve on '0.0.0.0' without a key"),
        (("--http", "example.org:0"), "refusing to serve on 'example.org' without a key"),
        (("--allow-ask", "--config", "no-such-file.toml"), "no-such-file.toml"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...], told: str) -> None:
    result = run("mcp", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", " ")
    result = run("mcp", "--http", "0.0.0.0:0", "--key-env", "SERVER_KEY")
    assert result.exit_code == 2
    assert "the environment variable SERVER_KEY is not set" in result.stderr


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = run("mcp", "--http", address)
    assert result.exit_code == 2
    assert f"cannot listen on {address}: " in result.stderr


def test_the_help_does_not_load_the_sdk() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from toolglot.cli.app import app\n"
        "for arguments in (['--help'], ['mcp', '--help']):\n"
        "    assert CliRunner().invoke(app, arguments).exit_code == 0\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types', 'pydantic')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_extra_it_says_which_one_is_missing(tmp_path: Path) -> None:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from toolglot.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "mcp"], capture_output=True, text=True, input="")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "toolglot mcp needs the package mcp, which comes with the extra `mcp`: in a clone" in done.stderr


def test_the_example_stands_alone() -> None:
    done = run("mcp", "--example", "--allow-ask")
    assert done.exit_code == 2
    assert "--example cannot be combined" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--example",), ("--allow-ask",)], ids=" ".join)
def test_on_a_terminal_it_says_what_it_is_and_how_to_configure_it(arguments: tuple[str, ...]) -> None:
    pty = pytest.importorskip("pty", reason="a terminal")
    terminal, line = pty.openpty()
    command, quiet = [sys.executable, "-m", "toolglot", "mcp", *arguments], subprocess.DEVNULL
    try:
        with subprocess.Popen(command, stdin=line, stdout=quiet, stderr=subprocess.PIPE, text=True) as done:
            assert done.stderr is not None
            said = [done.stderr.readline() for _ in range(7)]
            done.kill()
    finally:
        os.close(terminal)
        os.close(line)
    assert said[0].startswith("This is an MCP server. It waits for an MCP client on standard input")
    entry = json.loads(said[3])["mcpServers"]["toolglot"]
    assert entry == {"command": "toolglot", "args": ["mcp", *arguments]}
    assert "claude mcp add toolglot -- toolglot mcp" in said[5]
