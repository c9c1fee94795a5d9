"""The command line. A shell around the core: it reads files and pipes, and the core does the rest."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The console script `toolglot`."""
    try:
        from toolglot.cli.app import app

        app(prog_name="toolglot")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing != "click":
            raise
        sys.exit(f"toolglot: the command line needs {missing}: pip install click")
