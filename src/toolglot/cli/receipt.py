"""Where the receipt goes: to standard error in lines, or to a file as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from toolglot.cli.layout import laid_out
from toolglot.cli.parameters import refuse
from toolglot.lint.report import visible
from toolglot.receipt import Loss, Receipt


def give(receipt: Receipt, file: Path | None, asked: Receipt) -> None:
    """The receipt, to this file; to standard error where there is none. `asked` is that of the answer's request."""
    if file is None:
        for line in asked:
            click.echo(visible(f"request: {line}"), err=True)
        for line in receipt:
            click.echo(visible(str(line)), err=True)
        return
    lines = [{**_fields(line), "of": "request"} for line in asked] + [_fields(line) for line in receipt]
    try:
        file.write_text(laid_out(msgspec.json.encode(lines)) + "\n", encoding="utf-8")
    except OSError as error:
        refuse(file, error.strerror or str(error))


def _fields(line: Loss) -> dict[str, Any]:
    return {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why}


def check_writable(file: Path) -> None:
    """Tells that a receipt cannot be written before any output makes it too late."""
    try:
        file.open("ab").close()
    except OSError as error:
        refuse(file, error.strerror or str(error))
