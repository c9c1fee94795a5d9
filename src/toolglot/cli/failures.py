"""Exceptions that end a command: one line on standard error and an exit status, never a traceback.

Commands handle exceptions that they can describe better, for example with a place in a file. All others end here.
"""

from __future__ import annotations

import os

import click

from toolglot.config.problems import ConfigError
from toolglot.errors import (
    DecodeError,
    LossError,
    MissingExtraError,
    RefusedError,
    UnknownDialectError,
    UpstreamDecodeError,
    UpstreamError,
)
from toolglot.lint.report import visible
from toolglot.routing import UnknownModelError

FAILED, UNREADABLE, LOST, BUG = 1, 2, 3, 70
"""Exit statuses. 70 is `EX_SOFTWARE` of sysexits.h."""

TRACEBACK = "TOOLGLOT_TRACEBACK"
"""Environment variable that re-raises unexpected exceptions, for bug reports."""

STATUS: dict[type[Exception], int] = {
    LossError: LOST,
    UpstreamDecodeError: UNREADABLE,
    DecodeError: UNREADABLE,
    UpstreamError: UNREADABLE,
    RefusedError: UNREADABLE,
    UnknownDialectError: UNREADABLE,
    UnknownModelError: UNREADABLE,
    MissingExtraError: UNREADABLE,
    ConfigError: UNREADABLE,
    # Files and pipes, and operations that they do not support
    OSError: UNREADABLE,
    UnicodeError: UNREADABLE,
    RecursionError: UNREADABLE,
    MemoryError: FAILED,
}
"""Exit status of each exception. Other exceptions of this package end with `FAILED`."""

_WORDS: dict[type[Exception], str] = {
    RecursionError: "the input is nested too deeply",
    MemoryError: "not enough memory for this input",
}


def report_failure(error: Exception) -> int:
    """Print the exception on standard error. Returns the exit status.

    Raises: Exception: the same exception, if it is a bug and the environment requests its traceback.
    """
    known = next((cls for cls in STATUS if isinstance(error, cls)), None)
    if known is None and not _is_own(error):
        if os.environ.get(TRACEBACK):
            raise error
        said = f"internal error: {type(error).__name__}: {error}; {TRACEBACK}=1 shows where it happened"
        _echo(said)
        return BUG
    _echo(_WORDS.get(known or Exception) or _message(error))
    return STATUS[known] if known is not None else FAILED


def _is_own(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "toolglot"


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error) or type(error).__name__


def _echo(message: str) -> None:
    click.echo(f"toolglot: {visible(' '.join(message.split()))}", err=True)
