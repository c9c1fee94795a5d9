"""The options of a translation, the reading of its documents, and the destination of its result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

import click
from msgspec import Struct, field

from toolglot.api import Translated
from toolglot.cli.diagnosis import BYTE_ORDER_MARK, json_or_none, not_a_document, other_dialect
from toolglot.cli.parameters import exit_unreadable, print_note, read_chunks
from toolglot.cli.pretty_json import pretty_json
from toolglot.cli.receipt import write_receipt
from toolglot.dialect import JsonForm
from toolglot.errors import DecodeError, LossError, MissingExtraError
from toolglot.json_forms import JSON_FORMS, find_json_form
from toolglot.receipt import Receipt
from toolglot.wire import json


class TranslationJob(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

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
    """The text format of the calls in the output; then `target` may be empty."""
    bare: bool = False
    """True if the output is plain text without a dialect."""
    tools: Path | None = None
    """The tools that a text may call."""
    call_id: str | None = None
    """The call that a result answers."""
    name: str | None = None
    """The tool that the result belongs to."""
    asked: Receipt = field(default_factory=Receipt)
    """Receipt of the request, if the input is its answer. Its losses do not count, because the answer may still be
    complete.
    """


def read_document(path: Path, kind: str, dialect: str = "") -> bytes:
    """Read the document in a file; exits if there is none."""
    data = b"".join(read_chunks(path))
    if is_binary(dialect, kind):
        return read_binary_request(data, path, dialect)
    data = data.removeprefix(BYTE_ORDER_MARK)
    if is_not_json(dialect, kind):
        return data
    # The body of an error may be anything: a proxy's page, or nothing.
    if kind != "error" and (why := not_a_document(data, kind)):
        exit_unreadable(path, why)
    return data


def refuse_document(path: Path, data: bytes, kind: str, dialect: str, error: DecodeError) -> NoReturn:
    """Exit: the document violates its dialect."""
    other = other_dialect(json_or_none(data), kind, dialect)
    exit_unreadable(path, f"this looks like {other}, not {dialect} ({error})" if other else str(error))


def write_translated(translated: Translated, job: TranslationJob) -> Receipt:
    """Write the receipt and the document."""
    write_receipt(translated.receipt, job.receipt, job.asked)
    pretty = sys.stdout.isatty() if job.pretty is None else job.pretty
    written = translated.data
    if is_binary(job.target, job.kind):
        # A binary document must stay unchanged; a terminal gets the readable form.
        written = pretty_json(as_json_form(written, job.target)).encode() + b"\n" if pretty else written
        click.echo(written, nl=False)
        return translated.receipt
    if pretty and not is_not_json(job.target, job.kind):
        written = pretty_json(written).encode()
    click.echo(written, nl=not written.endswith(b"\n"))
    return translated.receipt


def write_text(text: str, receipt: Receipt, job: TranslationJob) -> Receipt:
    """Same, for an output that is not a JSON document.

    Raises:
        LossError: strict, and something would be lost.
    """
    if job.strict and receipt.losses:
        raise LossError(receipt)
    write_receipt(receipt, job.receipt, job.asked)
    click.echo(text.encode(), nl=not text.endswith("\n"))
    return receipt


REQUEST = "request"
_STREAMED = "response"


def is_binary(dialect: str, kind: str) -> bool:
    return dialect in JSON_FORMS and kind == REQUEST


def is_not_json(dialect: str, kind: str) -> bool:
    return dialect in JSON_FORMS and kind in (REQUEST, _STREAMED)


def read_binary_request(data: bytes, path: Path, dialect: str) -> bytes:
    """Return the request in its wire form, from raw bytes, base64 or its JSON form.

    Exits if the input is none of these.
    """
    form = _form(dialect)
    if not data:
        exit_unreadable(path, "the input is empty")
    value = json_or_none(data.removeprefix(BYTE_ORDER_MARK))
    rounded: list[str] = []
    try:
        if isinstance(value, dict):
            written = form.encode_request(json.decode(data.removeprefix(BYTE_ORDER_MARK)), rounded)
        else:
            written = form.unwrap_request(data)
    except DecodeError as error:
        exit_unreadable(path, _why(value, dialect, form, error))
    for place in rounded:
        print_note(path, f"{place}: an integer is rounded: numbers in a Struct are doubles")
    return written


def _why(value: Any, dialect: str, form: JsonForm, error: DecodeError) -> str:
    if isinstance(value, dict):
        other = None if form.own_members & value.keys() else other_dialect(value, REQUEST, dialect)
        return f"this looks like {other}, not {dialect} ({error})" if other else str(error)
    return f"neither {form.noun} nor its JSON form (from `{form.command}`): {error}"


def as_json_form(data: bytes, dialect: str) -> bytes:
    """Return the request in its JSON form."""
    return json.encode(_form(dialect).decode_request(data))


def _form(dialect: str) -> JsonForm:
    try:
        form = find_json_form(dialect)
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    assert form is not None
    return form
