"""`toolglot translate`: translate one document from standard input to standard output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from toolglot.api import Translated, translate_error
from toolglot.cli.diagnosis import json_or_none, other_dialect
from toolglot.cli.job import TranslationJob, read_document, refuse_document, write_translated
from toolglot.cli.parameters import count_noun, exit_unreadable, input_file, print_note, read_chunks
from toolglot.cli.receipt import check_writable, write_receipt
from toolglot.cli.stream import forward_stream
from toolglot.cli.tool_files import tools_option
from toolglot.cli.translation_sides import Side, answer_exchange, side_option, translate_request
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, LossError, RefusedError, UpstreamError
from toolglot.fragments import translate_messages, translate_result, translate_tools
from toolglot.receipt import Receipt
from toolglot.tools.mcp import NAME as MCP
from toolglot.translate import ExchangeCore

LOST = 3
"""Exit status: strict, and something would be lost."""


def _request(data: bytes, job: TranslationJob) -> Translated:
    exchange = ExchangeCore(job.source, job.target, strict=job.strict)
    return Translated(translate_request(exchange, data, job, job.path), exchange.receipt)


def _response(data: bytes, job: TranslationJob) -> Translated:
    exchange = answer_exchange(job)
    return Translated(exchange.response(data), exchange.receipt)


def _tools(data: bytes, job: TranslationJob) -> Translated:
    return translate_tools(data, job.source, job.target, model=job.model or "", strict=job.strict)


def _messages(data: bytes, job: TranslationJob) -> Translated:
    return translate_messages(data, job.source, job.target, model=job.model or "", strict=job.strict)


def _result(data: bytes, job: TranslationJob) -> Translated:
    return translate_result(
        data,
        job.source,
        job.target,
        call_id=job.call_id,
        name=job.name,
        model=job.model or "",
        strict=job.strict,
    )


def _error(data: bytes, job: TranslationJob) -> Translated:
    status = job.status or 400
    error = translate_error(status, {}, data, job.source, job.target)
    receipt = Receipt()
    if error.status != status:
        receipt.note("status", f"{status} is {error.status} there", "each API has its own statuses")
    return Translated(error.body, receipt)


_KINDS: dict[str, Callable[[bytes, TranslationJob], Translated]] = {
    "request": _request,
    "response": _response,
    "tools": _tools,
    "messages": _messages,
    "result": _result,
    "error": _error,
}

_FRAGMENTS = ("tools", "messages", "result")
"""Kinds whose decoders accept another dialect's document without an error, but lose its schemas or calls."""

# An option that a kind does not use is a mistake that should be reported.
_OPTIONS_OF_KINDS = {
    "model": ("request", "tools", "messages", "result"),
    "stream": ("request",),
    "status": ("error",),
    "request": ("response", "stream"),
    "pretty": tuple(_KINDS),
    "call_id": ("result",),
    "name": ("result",),
}
_MCP_KINDS = ("tools", "result")
"""Kinds that MCP supports too."""


@click.command(short_help="Translate requests, responses, streams and tools.")
@side_option("--from", "source", "Dialect of the input")
@side_option("--to", "target", "Dialect of the output")
@click.option("--kind", type=click.Choice([*_KINDS, "stream"]), required=True, help="Type of the input.")
@click.option("--model", help="Model name, if the body has none or to replace the one it has.")
@click.option("--stream/--no-stream", "stream", default=None, help="Make the request a streaming one, or not.")
@click.option(
    "--request",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Request that this response or stream answers, in the --to dialect. Restores tool names and ids that "
    "were changed for the upstream.",
)
@tools_option
@click.option("--call-id", metavar="ID", help="ID of the call that the result answers; selects one of several results.")
@click.option("--name", metavar="TOOL", help="Name of the tool that returned the result.")
@click.option("--status", type=int, help="HTTP status of the error. Default: 400.")
@click.option("--strict", is_flag=True, help="Exit with status 3 if anything would be lost.")
@click.option(
    "--receipt",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the receipt to this file as a JSON array, not to standard error.",
)
@click.option("--pretty/--no-pretty", default=None, help="Indent the output. Default: only on a terminal.")
@input_file
@click.pass_context
def translate(
    context: click.Context,
    file: Path,
    source: Side,
    target: Side,
    kind: str,
    model: str | None,
    stream: bool | None,
    request: Path | None,
    tools: Path | None,
    call_id: str | None,
    name: str | None,
    status: int | None,
    strict: bool,
    receipt: Path | None,
    pretty: bool | None,
) -> None:
    """Translate FILE, or standard input, from one dialect to another.

    \b
    toolglot translate --from openai_chat --to anthropic --kind request a.json

    The receipt lists what was changed or lost. It goes to standard error, or as JSON to the --receipt file. A stream
    is translated as it arrives.

    Exit status: 0 success, 2 invalid file or option, 3 data would be lost and --strict is set.
    """
    job = TranslationJob(
        source=source.dialect,
        target=target.dialect,
        reads=source.format,
        writes=target.format,
        tools=tools,
        call_id=call_id,
        name=name,
        kind=kind,
        path=file,
        model=model,
        stream=stream,
        status=status,
        strict=strict,
        request=request,
        receipt=receipt,
        pretty=pretty,
    )
    _refuse_options(context, job)
    lost = len(_receipt_of(job).losses)
    if strict and lost:
        print_note(file, f"refused (--strict): {count_noun(lost, 'loss', 'losses')}")
        context.exit(LOST)


def _refuse_options(context: click.Context, job: TranslationJob) -> None:
    """Reject options that would have no effect."""
    for option, kinds in _OPTIONS_OF_KINDS.items():
        # Some requests do not name their model, and plain text has none.
        unnamed = option == "model" and (job.request is not None or job.reads)
        if getattr(job, option) is not None and job.kind not in kinds and not unnamed:
            raise click.UsageError(f"--{option.replace('_', '-')} cannot be combined with --kind {job.kind}", context)
    if job.tools is not None and not job.reads:
        raise click.UsageError("--tools applies only to --from text:FORMAT", context)
    if MCP in (job.source, job.target) and job.kind not in _MCP_KINDS:
        raise click.UsageError("mcp has only tools and results: use --kind tools or --kind result", context)
    if job.kind == "result" and job.source == MCP != job.target:
        if job.call_id is None:
            raise click.UsageError("an MCP result does not name its call: give --call-id", context)
        names_tools = job.target in DIALECTS and DIALECTS[job.target].request.results_name_tools
        if job.name is None and (names_tools or job.writes):
            raise click.UsageError("the target needs a tool name, and an MCP result has none: give --name", context)
    if str(job.receipt) == "-":
        raise click.UsageError("--receipt needs a file: the output is on standard output", context)


def _receipt_of(job: TranslationJob) -> Receipt:
    """Run the job, and return its receipt."""
    try:
        if job.reads or job.writes:
            # Loading all text formats is avoided if none is named.
            from toolglot.cli.translate_text import translate_text

            return translate_text(job)
        return _translate_stream(job) if job.kind == "stream" else _translate_whole(job)
    except LossError as error:
        write_receipt(error.receipt, job.receipt, job.asked)
        return error.receipt


def _translate_whole(job: TranslationJob) -> Receipt:
    data = read_document(job.path, job.kind, job.source)
    other = other_dialect(json_or_none(data), job.kind, job.source)
    if other and job.kind in _FRAGMENTS:
        exit_unreadable(job.path, f"this looks like {other}, not {job.source}")
    try:
        translated = _KINDS[job.kind](data, job)
    except DecodeError as error:
        refuse_document(job.path, data, job.kind, job.source, error)
    except RefusedError as error:
        exit_unreadable(job.path, str(error))
    except UpstreamError as error:
        exit_unreadable(job.path, f"this is an error, not a response (try --kind error): {error}")
    if other:
        print_note(job.path, f"this looks like {other}, not {job.source}")
    return write_translated(translated, job)


def _translate_stream(job: TranslationJob) -> Receipt:
    if job.receipt is not None:
        check_writable(job.receipt)
    exchange = answer_exchange(job)
    why = forward_stream(read_chunks(job.path), exchange.stream(), job.source)
    write_receipt(exchange.receipt, job.receipt, job.asked)
    if why is not None:
        exit_unreadable(job.path, why)
    return exchange.receipt
