"""Running the command line inside the test process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from toolglot.cli.app import app


def run(*arguments: str, data: bytes | str = b"") -> Result:
    """What the command wrote and how it ended; an exception that nobody handled fails the test."""
    return CliRunner().invoke(app, arguments, input=data, catch_exceptions=False)
