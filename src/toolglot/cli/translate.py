"""`toolglot translate`: one thing from one dialect to another, standard input to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from toolglot.api import Translated, translate_error, translate_request, translate_response
from toolglot.cli.parameters import chunks, dialect_or_mcp_option, input_file, refuse
from toolglot.errors import DecodeError, LossError, UpstreamError
from toolglot.fragments import translate_messages, translate_tools
from toolglot.receipt import Receipt
from toolglot.tools.mcp import NAME as MCP
from toolglot.translate import Exchange

LOST = 3
"""Exit status: strict, and something would be lost."""


class Job(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    source: str
    target: str
    kind: str
    path: Path
    model: str | None
    stream: bool | None
    status: int
    strict: bool


def _request(data: bytes, job: Job) -> Translated:
    return translate_request(data, job.source, job.target, model=job.model, stream=job.stream, strict=job.strict)


def _response(data: bytes, job: Job) -> Translated:
    return translate_response(data, job.source, job.target, strict=job.strict)


def _tools(data: bytes, job: Job) -> Translated:
    return translate_tools(data, job.source, job.target, model=job.model or "", strict=job.strict)


def _messages(data: bytes, job: Job) -> Translated:
    return translate_messages(data, job.source, job.target, model=job.model or "", strict=job.strict)


def _error(data: bytes, job: Job) -> Translated:
    error = translate_error(job.status, {}, data, job.source, job.target)
    receipt = Receipt()
    if error.status != job.status:
        receipt.note("status", str(job.status), f"the target's status for this error is {error.status}")
    return Translated(error.body, receipt)


_KINDS: dict[str, Callable[[bytes, Job], Translated]] = {
    "request": _request,
    "response": _response,
    "tools": _tools,
    "messages": _messages,
    "error": _error,
}

# An option that a kind has no use for is a mistake that should be told.
_OPTIONS_OF_KINDS = {
    "model": ("request", "tools", "messages"),
    "stream": ("request",),
    "status": ("error",),
    "pretty": tuple(_KINDS),
}


@click.command()
@dialect_or_mcp_option("--from", "source", "The dialect of the input.")
@dialect_or_mcp_option("--to", "target", "The dialect of the output.")
@click.option("--kind", type=click.Choice([*_KINDS, "stream"]), required=True, help="What the input is.")
@click.option("--model", help="The model, where the body does not name it or should name another.")
@click.option("--stream/--no-stream", "stream", default=None, help="Whether the request asks for a stream.")
@click.option("--status", type=int, help="The HTTP status of an error (400 if not given).")
@click.option("--strict", is_flag=True, help="Exit with 3 instead of losing anything.")
@click.option("--receipt", "receipt_file", type=click.Path(path_type=Path, dir_okay=False), help="Write it as JSON.")
@click.option("--pretty", is_flag=True, help="Indent the output.")
@input_file
@click.pass_context
def translate(
    context: click.Context,
    file: Path,
    source: str,
    target: str,
    kind: str,
    model: str | None,
    stream: bool | None,
    status: int | None,
    strict: bool,
    receipt_file: Path | None,
    pretty: bool,
) -> None:
    """Translate FILE, or standard input, from one dialect to another.

    The receipt (what changed its form, and what was lost) goes to standard error, or as JSON to --receipt. For a
    stream the output comes as the input arrives.

    Exit status: 0 done, 2 the input cannot be read, 3 strict and something would be lost.
    """
    given = {"model": model, "stream": stream, "status": status, "pretty": pretty or None}
    for option, kinds in _OPTIONS_OF_KINDS.items():
        if given[option] is not None and kind not in kinds:
            raise click.UsageError(f"--{option} has no meaning with --kind {kind}", context)
    if MCP in (source, target) and kind != "tools":
        raise click.UsageError("mcp has tools alone: use --kind tools", context)
    job = Job(
        source=source,
        target=target,
        kind=kind,
        path=file,
        model=model,
        stream=stream,
        status=status or 400,
        strict=strict,
    )
    receipt = _translate_stream(job, receipt_file) if kind == "stream" else _translate_whole(job, receipt_file, pretty)
    if strict and receipt.losses:
        context.exit(LOST)


def _translate_whole(job: Job, receipt_file: Path | None, pretty: bool) -> Receipt:
    data = b"".join(chunks(job.path))
    try:
        translated = _KINDS[job.kind](data, job)
    except DecodeError as error:
        refuse(job.path, str(error))
    except UpstreamError as error:
        refuse(job.path, f"this is an error and not a response (try --kind error): {error}")
    except LossError as error:
        _give(error.receipt, receipt_file)
        return error.receipt
    written = msgspec.json.format(translated.data, indent=2) if pretty else translated.data
    click.echo(written)
    _give(translated.receipt, receipt_file)
    return translated.receipt


_SPOILT = ("upstream_truncated", "upstream_unreadable")


def _translate_stream(job: Job, receipt_file: Path | None) -> Receipt:
    exchange = Exchange(job.target, job.source, strict=job.strict)
    translation = exchange.stream()
    for chunk in chunks(job.path):
        _write(translation.feed(chunk))
    _write(translation.close())
    _give(exchange.receipt, receipt_file)
    if translation.fault is not None and translation.fault.code in _SPOILT:
        refuse(job.path, translation.fault.message)
    return exchange.receipt


def _write(data: bytes) -> None:
    if data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _give(receipt: Receipt, receipt_file: Path | None) -> None:
    if receipt_file is not None:
        lines = [
            {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why} for line in receipt
        ]
        try:
            receipt_file.write_bytes(msgspec.json.format(msgspec.json.encode(lines), indent=2) + b"\n")
        except OSError as error:
            refuse(receipt_file, error.strerror or str(error))
        return
    for line in receipt:
        click.echo(str(line), err=True)
