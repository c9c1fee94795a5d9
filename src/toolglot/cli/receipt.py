"""Write the receipt: to standard error in lines, or to a file as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from toolglot.cli.parameters import exit_unreadable
from toolglot.cli.pretty_json import pretty_json
from toolglot.lint.report import visible
from toolglot.receipt import Receipt, ReceiptLine


def write_receipt(receipt: Receipt, file: Path | None, asked: Receipt) -> None:
    """Write the receipt to this file, or to standard error. `asked` is the receipt of the answer's request."""
    if file is None:
        for line in asked:
            click.echo(visible(f"request: {line}"), err=True)
        for line in receipt:
            click.echo(visible(str(line)), err=True)
        return
    lines = [{**_fields(line), "of": "request"} for line in asked] + [_fields(line) for line in receipt]
    try:
        file.write_text(pretty_json(msgspec.json.encode(lines)) + "\n", encoding="utf-8")
    except OSError as error:
        exit_unreadable(file, error.strerror or str(error))


def _fields(line: ReceiptLine) -> dict[str, Any]:
    return {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why}


def check_writable(file: Path) -> None:
    """Report an unwritable receipt before any output is written."""
    try:
        file.open("ab").close()
    except OSError as error:
        exit_unreadable(file, error.strerror or str(error))
