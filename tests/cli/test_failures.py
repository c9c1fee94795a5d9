"""No exception reaches a terminal as a traceback, in any command."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import click
import pytest
from click.testing import CliRunner

import toolglot
from tests.cli.run import environment_of, on_terminal
from toolglot.cli.app import app
from toolglot.cli.failures import BUG, FAILED, LOST, TRACEBACK, UNREADABLE
from toolglot.config.problems import ConfigError, Problem
from toolglot.errors import (
    ApiError,
    DecodeError,
    LossError,
    MissingExtraError,
    RefusedError,
    StreamError,
    UnknownDialectError,
    UpstreamDecodeError,
    UpstreamError,
    install_command,
)
from toolglot.receipt import Receipt
from toolglot.routing import UnknownModelError

CASES = Path(__file__).parent.parent / "cases"
ERROR = ApiError(kind="server", message="it broke")

KNOWN: list[tuple[Exception, int, str]] = [
    (DecodeError("$.a", "is odd"), UNREADABLE, "$.a: is odd"),
    (UpstreamDecodeError("$.a", "is odd"), UNREADABLE, "$.a: is odd"),
    (UnknownDialectError("x", ("a", "b")), UNREADABLE, "there is no dialect 'x'"),
    (MissingExtraError("it", "package", "extra"), UNREADABLE, "it needs the package package"),
    (LossError(Receipt()), LOST, "refused, because it would lose"),
    (RefusedError(ERROR), UNREADABLE, "it broke"),
    (UpstreamError(ERROR), UNREADABLE, "it broke"),
    (UnknownModelError("x"), UNREADABLE, "no upstream serves the model 'x'"),
    (StreamError("rule", "detail"), FAILED, "rule: detail"),
    (ConfigError([Problem(file="toolglot.toml", message="it is wrong")]), UNREADABLE, "it is wrong"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.json"), UNREADABLE, "a.json: No such file"),
    (PermissionError(errno.EACCES, "Permission denied", "/x"), UNREADABLE, "/x: Permission denied"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), UNREADABLE, "invalid start byte"),
    (RecursionError("maximum recursion depth exceeded"), UNREADABLE, "nested too deeply"),
    (MemoryError(), FAILED, "not enough memory"),
    (TypeError("a bug"), BUG, f"internal error: TypeError: a bug; {TRACEBACK}=1 shows where"),
]


def commands(command: click.Command = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command that is no group."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, (*path, name))


COMMANDS = list(commands())


def end_with(monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], raised: BaseException) -> Any:
    """Run a command that raises this before it does anything."""
    command: click.Command = app
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found

    def fail(context: click.Context) -> None:
        raise raised

    def parsed(info_name: str, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        return click.Context(command, parent=parent, info_name=info_name)

    monkeypatch.setattr(command, "make_context", parsed)
    monkeypatch.setattr(command, "invoke", fail)
    return CliRunner().invoke(app, path, catch_exceptions=False)


@pytest.mark.parametrize(("raised", "status", "said"), KNOWN, ids=[type(case[0]).__name__ for case in KNOWN])
@pytest.mark.parametrize("path", COMMANDS, ids=[" ".join(path) for path in COMMANDS])
def test_every_exception_ends_every_command_with_one_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], raised: Exception, status: int, said: str
) -> None:
    result = end_with(monkeypatch, path, raised)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr
    assert result.stderr.startswith("toolglot: ")
    assert result.stderr.count("\n") == 1


def exceptions() -> list[type[Exception]]:
    """Every exception class that this package defines."""
    for module in walk_packages(toolglot.__path__, "toolglot."):
        if not module.name.endswith("__main__"):
            import_module(module.name)

    def below(cls: type[Exception]) -> Iterator[type[Exception]]:
        for inner in cls.__subclasses__():
            yield inner
            yield from below(inner)

    found = {cls for cls in below(Exception) if cls.__module__.partition(".")[0] == "toolglot"}
    return sorted(found, key=lambda cls: (cls.__module__, cls.__name__))


def test_every_exception_class_of_the_package_is_told_and_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[type[Exception], Exception] = {type(raised): raised for raised, _, _ in KNOWN}
    classes = exceptions()
    assert len(classes) > 30
    for cls in classes:
        raised = told.get(cls)
        if raised is None:
            raised = cls.__new__(cls)
            raised.args = ("it broke",)
        with monkeypatch.context() as patch:
            result = end_with(patch, ("dialects",), raised)
        assert result.exit_code in (FAILED, UNREADABLE, LOST), cls
        assert "Traceback" not in result.stderr


def test_the_traceback_of_a_bug_is_there_for_who_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(TypeError, match="a bug"):
        end_with(monkeypatch, ("dialects",), TypeError("a bug"))


# Real input


THREAD = {"model": "m", "max_tokens": 9, "thread": {}, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "--from", "anthropic", "--to", "gemini", "--kind", "request", "{file}"],
        ["translate", "--from", "anthropic", "--to", "text:hermes_json", "--kind", "request", "{file}"],
        ["explain", "--from", "anthropic", "--to", "gemini", "{file}"],
        *(
            ["translate", "--from", "gemini", "--to", "anthropic", "--kind", kind, "--request", "{file}", "{answer}"]
            for kind in ("response", "stream")
        ),
    ],
    ids=lambda arguments: " ".join(arguments[:7]),
)
def test_a_request_that_only_its_own_api_can_serve_is_refused_in_words(tmp_path: Path, arguments: list[str]) -> None:
    file, answer = tmp_path / "thread.json", tmp_path / "answer.json"
    file.write_text(json.dumps(THREAD))
    answer.write_text("{}")
    result = CliRunner().invoke(
        app, [word.format(file=file, answer=answer) for word in arguments], catch_exceptions=False
    )
    assert result.exit_code == UNREADABLE
    assert "keeps no threads" in result.stderr or "no server-sent event" in result.stderr


BAD_FILES: dict[str, Callable[[Path], object]] = {
    "nothing there": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "empty": lambda path: path.write_bytes(b""),
    "no text": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "half": lambda path: path.write_bytes(b'{"model": "m", "messages": [{"role"'),
    "deep": lambda path: path.write_bytes(b"[" * 200_000),
    "another kind": lambda path: path.write_bytes(b'"text"'),
    "a surrogate": lambda path: path.write_bytes(b'{"model": "\\ud800", "messages": 1}'),
}

READERS = [
    *(
        ["translate", "--from", "openai_chat", "--to", "anthropic", "--kind", kind, "{file}"]
        for kind in ("request", "response", "stream", "tools", "messages", "result", "error")
    ),
    ["translate", "--from", "text:hermes_json", "--to", "anthropic", "--kind", "response", "{file}"],
    ["parse", "--format", "hermes_json", "{file}"],
    ["parse", "--format", "hermes_json", "--tools", "{file}", "-"],
    ["lint-stream", "--dialect", "anthropic", "{file}"],
    ["replay", "{file}"],
    ["export", "{file}"],
    ["explain", "{file}"],
    ["explain", "{file}", "--from", "openai_chat", "--to", "anthropic"],
    ["config", "check", "{file}"],
    ["config", "show", "--config", "{file}"],
    ["serve", "--config", "{file}"],
    ["doctor", "--config", "{file}"],
    ["chat", "--config", "{file}", "hi"],
    ["warp", "decode", "{file}"],
    ["warp", "encode", "{file}"],
]


STARTS = ("serve", "doctor", "chat")
"""Commands for which an empty configuration is a good one: they would begin their work."""
READ = [(words, bad) for words in READERS for bad in BAD_FILES if bad != "empty" or words[0] not in STARTS]


@pytest.mark.parametrize(("arguments", "bad"), READ, ids=[f"{' '.join(words[:7])} {bad}" for words, bad in READ])
def test_a_file_that_is_not_what_it_should_be_ends_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], bad: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TRACEBACK, "1")
    file = tmp_path / "input.toml"
    BAD_FILES[bad](file)
    result = CliRunner().invoke(app, [word.format(file=file) for word in arguments], catch_exceptions=False)
    assert result.exit_code in (0, FAILED, UNREADABLE)
    assert "Traceback" not in result.stderr


# The process


@pytest.mark.parametrize(
    "command",
    ["dialects", "--help", f"export {CASES}/openai_chat/tool_round_trip/request.json", "config schema"],
)
@pytest.mark.parametrize("end", [">&-", "| true", ">/dev/full"], ids=["closed", "left", "full"])
def test_an_output_that_goes_nowhere_leaves_no_traceback(tmp_path: Path, command: str, end: str) -> None:
    shown = on_terminal(f"set +e +o pipefail; toolglot {command} {end}; echo done", tmp_path)
    assert "Traceback" not in shown.output
    assert "Exception ignored" not in shown.output
    assert shown.output.endswith("done\n")


@pytest.mark.parametrize("option", ["--receipt {there}", "--receipt {folder}"])
def test_a_receipt_that_cannot_be_written_is_told(tmp_path: Path, option: str) -> None:
    words = option.format(there=tmp_path / "no" / "such", folder=tmp_path).split()
    file = CASES / "openai_chat" / "tool_round_trip" / "request.json"
    arguments = ["translate", "--from", "openai_chat", "--to", "gemini", "--kind", "request", *words, str(file)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == UNREADABLE


def test_ctrl_c_leaves_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolglot", "parse", "--format", "hermes_json"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment_of(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Some text that is no call.\n" * 20_000)  # more than a pipe holds: it is being read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode in (1, 130)
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/me/.local/share/pipx/venvs/toolglot", "pipx inject toolglot mcp"),
        ("/home/me/.local/share/uv/tools/toolglot", "in a clone of toolglot, uv tool install --reinstall '.[mcp]'"),
        ("/home/me/project/.venv", "in a clone of toolglot, pip install '.[mcp]'"),
        ("/home/me/uv/.venv", "in a clone of toolglot, pip install '.[mcp]'"),
    ],
)
def test_a_missing_package_is_installed_by_what_installed_toolglot(prefix: str, command: str) -> None:
    assert install_command("mcp", "mcp", prefix) == command
