"""An agent's process: its settings, its environment, and its signals."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from toolglot.cli.agents import Agent, PreparedAgent, merge_documents, settings_path
from toolglot.errors import DecodeError, ToolglotError
from toolglot.wire import json

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
CANNOT_EXECUTE = 126
"""The shell's exit status for a command that exists and cannot be run."""


class AgentError(ToolglotError):
    """The agent cannot be started. `status` is the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def write_settings(agent: Agent, settings: Mapping[str, Any], folder: Path, environ: Mapping[str, str]) -> None:
    """Write an agent's settings to the temporary folder, and link the user's other files there."""
    path = folder / settings_path(agent)
    path.parent.mkdir(parents=True, exist_ok=True)
    if agent.mirror is not None:
        home = environ.get(agent.mirror_variable or "") or environ.get("HOME") or str(Path.home())
        theirs = Path(home) / agent.mirror
        for entry in theirs.iterdir() if theirs.is_dir() else ():
            if entry.name != path.name:
                (path.parent / entry.name).symlink_to(entry.absolute())
        settings = merge_documents(_read_user_settings(theirs / path.name), settings)
    path.write_bytes(json.encode(settings))


def _read_user_settings(path: Path) -> Mapping[str, Any]:
    """Read the user's own settings, which may have comments."""
    try:
        text = path.read_text()
        settings = json.decode(_COMMENTS.sub(lambda found: found[1] or "", text)) if text.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise AgentError(f"{path}: these settings cannot be enforced: {error}") from None
    return settings if isinstance(settings, Mapping) else {}


_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def agent_environment(told: PreparedAgent, environ: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the agent's environment: the user's variables and those that point it at the gateway, which bypasses any
    proxy.
    """
    environment = {name: value for name, value in environ.items() if name not in told.unset}
    kept = {name for name in told.defaults if environ.get(name)}
    environment |= {name: value for name, value in told.environment.items() if name not in kept}
    if any(environ.get(name) for name in PROXY_VARIABLES):
        host = urlsplit(url).hostname or ""
        for name in ("NO_PROXY", "no_proxy"):
            environment[name] = ",".join(part for part in (environ.get(name), host) if part)
    return environment


def run_agent(command: list[str], environment: Mapping[str, str], install: str) -> int:
    """Run it in this terminal until it exits, and return its exit status as a shell does. Raises `AgentError`."""
    try:
        begun = subprocess.Popen(command, env=environment)
    except OSError as error:  # a partly installed agent has a file without a `#!` line, or with a wrong one
        why = (error.strerror or str(error)).lower()
        message = f"{command[0]} is installed but cannot be run: {why}; reinstall it: {install}"
        raise AgentError(message, CANNOT_EXECUTE) from None
    with begun as process, _passing_signals(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _passing_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ignore signals from the terminal, which the agent gets itself, and forward other signals."""

    def heed_not(number: int, frame: FrameType | None) -> None:
        """Ignore a signal. Unlike `SIG_IGN`, a handler is not inherited by the agent."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    handlers = {"SIGINT": heed_not, "SIGQUIT": heed_not, "SIGTERM": hand_on, "SIGHUP": hand_on}
    before = {
        number: signal.signal(number, handler)
        for name, handler in handlers.items()
        if (number := getattr(signal, name, None)) is not None
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
