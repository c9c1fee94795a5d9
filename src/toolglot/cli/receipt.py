"""Where the receipt goes: to standard error in lines, or to a file as JSON."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from toolglot.cli.layout import laid_out
from toolglot.cli.parameters import refuse
from toolglot.lint.report import visible
from toolglot.receipt import Receipt


def give(receipt: Receipt, file: Path | None) -> None:
    """The receipt, to this file; to standard error where there is none."""
    if file is None:
        for line in receipt:
            click.echo(visible(str(line)), err=True)
        return
    lines = [{"severity": line.severity, "where": line.where, "what": line.what, "why": line.why} for line in receipt]
    try:
        file.write_text(laid_out(msgspec.json.encode(lines)) + "\n", encoding="utf-8")
    except OSError as error:
        refuse(file, error.strerror or str(error))


def check_writable(file: Path) -> None:
    """Tells that a receipt cannot be written before any output makes it too late."""
    try:
        file.open("ab").close()
    except OSError as error:
        refuse(file, error.strerror or str(error))
