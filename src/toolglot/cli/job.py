"""What a translation is asked for, how its documents are read, and where its result goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click
from msgspec import Struct, field

from toolglot.api import Translated
from toolglot.cli.binary import is_binary, is_no_json, request_in, shown
from toolglot.cli.diagnosis import BYTE_ORDER_MARK, json_or_none, not_a_document, other_dialect
from toolglot.cli.layout import laid_out
from toolglot.cli.parameters import chunks, refuse
from toolglot.cli.receipt import give
from toolglot.errors import DecodeError, LossError
from toolglot.receipt import Receipt


class Job(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    source: str
    target: str
    kind: str
    path: Path
    model: str | None
    stream: bool | None
    status: int | None
    strict: bool
    request: Path | None
    """The request that the input answers."""
    receipt: Path | None
    pretty: bool | None
    reads: str = ""
    """The text format of the calls in the input; then `source` may be empty."""
    writes: str = ""
    """That of the calls in the output; then `target` may be empty."""
    bare: bool = False
    """The output is to be plain text, in no dialect."""
    tools: Path | None = None
    """The tools that a text may call."""
    call_id: str | None = None
    """The call that a result answers."""
    name: str | None = None
    """The tool that it is of."""
    asked: Receipt = field(default_factory=Receipt)
    """What the request lost, where the input is its answer. It does not count: the answer may still be whole."""


def read(path: Path, kind: str, dialect: str = "") -> bytes:
    """The document in a file; the program ends if there is none."""
    data = b"".join(chunks(path))
    if is_binary(dialect, kind):
        return request_in(data, path, dialect)
    data = data.removeprefix(BYTE_ORDER_MARK)
    if is_no_json(dialect, kind):
        return data
    # The body of an error may be anything: a page of a proxy, or nothing at all.
    if kind != "error" and (why := not_a_document(data, kind)):
        refuse(path, why)
    return data


def refuse_document(path: Path, data: bytes, kind: str, dialect: str, error: DecodeError) -> NoReturn:
    """Ends the program: the document is not what the dialect allows."""
    other = other_dialect(json_or_none(data), kind, dialect)
    refuse(path, f"this looks like {other}, not {dialect} ({error})" if other else str(error))


def put(translated: Translated, job: Job) -> Receipt:
    """The receipt and the document, to where they belong."""
    give(translated.receipt, job.receipt, job.asked)
    pretty = sys.stdout.isatty() if job.pretty is None else job.pretty
    written = translated.data
    if is_binary(job.target, job.kind):
        # Not a byte may be added; people are shown the form that they can read.
        written = laid_out(shown(written, job.target)).encode() + b"\n" if pretty else written
        click.echo(written, nl=False)
        return translated.receipt
    if pretty and not is_no_json(job.target, job.kind):
        written = laid_out(written).encode()
    click.echo(written, nl=not written.endswith(b"\n"))
    return translated.receipt


def put_text(text: str, receipt: Receipt, job: Job) -> Receipt:
    """The same for an output that is no JSON document.

    Raises:
        LossError: strict, and something would be lost.
    """
    if job.strict and receipt.losses:
        raise LossError(receipt)
    give(receipt, job.receipt, job.asked)
    click.echo(text.encode(), nl=not text.endswith("\n"))
    return receipt
