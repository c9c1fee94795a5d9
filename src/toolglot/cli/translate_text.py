"""`toolglot translate` with text calls on one side or both."""

from __future__ import annotations

from collections.abc import Callable

import click

from toolglot.api import Translated
from toolglot.cli.diagnosis import json_or_none, other_dialect
from toolglot.cli.job import TranslationJob, read_document, refuse_document, write_text, write_translated
from toolglot.cli.parameters import exit_unreadable
from toolglot.cli.text_answers import translate_response, translate_stream
from toolglot.cli.tool_files import all_tools_in, tools_in
from toolglot.cli.translation_sides import AUTO, require_model
from toolglot.dialects import DEFAULT, DIALECTS
from toolglot.errors import DecodeError
from toolglot.fragments import read_result, translate_messages
from toolglot.ir import Block, Media, Message, Opaque, Request, Text, Tool, ToolResult, replace
from toolglot.passes import Context, foreign
from toolglot.passes.media import marker
from toolglot.receipt import Receipt, describe_block
from toolglot.textcalls.prompts.records import Result
from toolglot.textcalls.prompts.render import results_text, tool_instructions
from toolglot.textcalls.request import ONLY_VENDOR
from toolglot.textcalls.settings import TextCalls
from toolglot.tools import mcp
from toolglot.translate import ExchangeCore

UNMARKED = DEFAULT
"""The dialect of messages without any mark: a role and a text."""


def translate_text(job: TranslationJob) -> Receipt:
    """Run the job, and return its receipt."""
    _refuse_sides(job)
    return _KINDS[job.kind](job)


def _refuse_sides(job: TranslationJob) -> None:
    answers = job.kind in ("response", "stream")
    if job.writes == AUTO:
        raise click.UsageError(f"{AUTO} is only for reading: name the format to write")
    if job.reads == AUTO and not answers:
        raise click.UsageError(f"{AUTO} is only for answers: name the format of the calls and results in this history")
    if job.kind == "error":
        raise click.UsageError("an error has no calls: text:FORMAT cannot be combined with --kind error")
    if job.kind == "tools" and job.reads:
        raise click.UsageError("tools are described in prose, which cannot be read back: use --to text:FORMAT")
    if job.kind == "result" and (job.reads or job.target):
        raise click.UsageError(
            "a single result can only be written as text (--to text:FORMAT); use --kind messages for the rest"
        )
    if answers and job.reads and job.tools is None and job.request is None:
        raise click.UsageError("the callable tools are unknown: give --tools FILE or --request FILE")
    if job.tools is not None and job.request is not None:
        raise click.UsageError("--tools cannot be combined with --request, which has the tools")
    plain = job.kind in ("tools", "result") or (answers and job.writes and not job.target)
    if plain and job.pretty is not None:
        raise click.UsageError("--pretty does not apply here: the output is plain text")


def _request(job: TranslationJob) -> Receipt:
    """Translate a request with text calls on one side or both. `text:FORMAT` alone keeps the other side's dialect."""
    data = read_document(job.path, "request", job.source)
    source, target = _dialects(data, job)
    exchange = ExchangeCore(
        source,
        target,
        strict=job.strict,
        text_calls=_text_calls(job),
        history_format=job.reads or None,
        verbatim=job.tools is None,
    )
    try:
        require_model(exchange, job, job.path)
        return write_translated(Translated(_ask(exchange, data, job), exchange.receipt), job)
    except DecodeError as error:
        refuse_document(job.path, data, "request", source, error)


def _ask(exchange: ExchangeCore, data: bytes, job: TranslationJob) -> bytes:
    if job.tools is None:
        return exchange.request(data, model=job.model, stream=job.stream)
    asked = exchange.client.decode_request(data)
    known = {tool.name for tool in asked.tools if isinstance(tool, Tool)}
    tools = (*asked.tools, *(tool for tool in tools_in(job.tools) if tool.name not in known))
    stream = asked.stream if job.stream is None else job.stream
    return exchange.request_of(replace(asked, tools=tools, model=job.model or asked.model, stream=stream), data)


def _messages(job: TranslationJob) -> Receipt:
    data = read_document(job.path, "messages")
    source, target = _dialects(data, job)
    try:
        translated = translate_messages(
            data,
            source,
            target,
            model=job.model or "",
            strict=job.strict,
            text_calls=_text_calls(job),
            history_format=job.reads or None,
            tools=tools_in(job.tools) if job.tools is not None else (),
        )
    except DecodeError as error:
        refuse_document(job.path, data, "messages", source, error)
    return write_translated(translated, job)


def _text_calls(job: TranslationJob) -> TextCalls | None:
    return TextCalls(format=job.writes) if job.writes else None


def _dialects(data: bytes, job: TranslationJob) -> tuple[str, str]:
    """Return the dialects of both sides. An unspecified input dialect is detected, and an unspecified output dialect is
    the same.
    """
    other = other_dialect(json_or_none(data), job.kind, job.source)
    if other and job.source:
        exit_unreadable(job.path, f"this looks like {other}, not {job.source}")
    source = job.source or other or UNMARKED
    return source, job.target or source


def _tools(job: TranslationJob) -> Receipt:
    """Write the tools as text for a model."""
    read, receipt = all_tools_in(job.path, job.source or mcp.NAME), Receipt()
    tools = tuple(tool for tool in read if isinstance(tool, Tool))
    for index, tool in enumerate(read):
        if isinstance(tool, Opaque):
            receipt.loss(f"tools[{index}]", describe_block(tool), ONLY_VENDOR)
    mcp.note_cosmetic(tools, receipt)
    _tell_foreign(Request(model="", tools=tools), job, receipt)
    return write_text(tool_instructions(job.writes, tools), receipt, job)


def _result(job: TranslationJob) -> Receipt:
    """Write the result as text for a model."""
    data, receipt = read_document(job.path, "result"), Receipt()
    try:
        result = read_result(data, job.source, call_id=job.call_id, name=job.name, receipt=receipt)
    except DecodeError as error:
        refuse_document(job.path, data, "result", job.source, error)
    if result.name is None:
        raise click.UsageError("a result as text needs a tool name, and this one has none: use --name")
    mcp.note_meta(result, receipt)
    own = Receipt()
    _tell_foreign(Request(model="", messages=(Message(role="tool", content=(result,)),)), job, own)
    receipt.add(replace(line, where=line.where.removeprefix("messages[0].content[0].")) for line in own)
    told = Result(
        name=result.name, text=_plain_text(result, receipt), id=result.call_id, is_error=bool(result.is_error)
    )
    return write_text(results_text(job.writes, [told]), receipt, job)


def _plain_text(result: ToolResult, receipt: Receipt) -> str:
    return "\n".join(_text(block, f"content[{index}]", receipt) for index, block in enumerate(result.content))


def _text(block: Block, where: str, receipt: Receipt) -> str:
    match block:
        case Text(text=text):
            return text
        case Media(source=source, name=name) if source.kind == "text":
            return f"{name}:\n{source.data}" if name else source.data
        case Media(kind=kind):
            receipt.loss(where, kind, "plain text cannot hold it")
            return marker(block, "left out: plain text cannot hold it").text
    receipt.loss(where, describe_block(block), "plain text cannot hold it")
    return ""


def _tell_foreign(request: Request, job: TranslationJob, receipt: Receipt) -> None:
    """Report fields that only the source dialect understands."""
    can = DIALECTS[job.source].can if job.source in DIALECTS else mcp.CAN
    context = Context(
        source=job.source,
        target="",
        can=can,
        receipt=receipt,
        source_can=can,
    )
    foreign.report(request, context)


_KINDS: dict[str, Callable[[TranslationJob], Receipt]] = {
    "request": _request,
    "messages": _messages,
    "tools": _tools,
    "result": _result,
    "response": translate_response,
    "stream": translate_stream,
}
