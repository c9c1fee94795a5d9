"""The command line, a shell around the core: it reads files and pipes, and the core does the rest."""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

__all__ = ["main"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
OUTPUT_FAILURES = _FULL | {errno.EPIPE}
"""Errors of the output's destination, not of this program."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


def main() -> None:
    """The console script `toolglot`."""
    try:
        from toolglot.cli.app import app

        try:
            app(prog_name="toolglot")
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()  # at process exit a failure could not be reported
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing != "click":
            raise
        sys.exit(f"toolglot: the command line needs {missing}: pip install click")
    except KeyboardInterrupt:  # before click could catch it
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _end_output(1)  # the reader has had enough
    except OSError as error:
        if error.errno not in _FULL:
            raise
        print(f"toolglot: the output cannot be written: {error.strerror}", file=sys.stderr)
        _end_output(2)


def _end_output(status: int) -> NoReturn:
    """Exit without another attempt to write the remaining output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
