"""The tool `translate`: one document from one dialect to another, with its receipt. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from toolglot.cli.diagnosis import is_stream, json_or_none, not_this_stream, other_dialect
from toolglot.dialects import DIALECTS, suggest
from toolglot.errors import (
    DecodeError,
    LossError,
    MissingExtraError,
    RefusedError,
    UnknownDialectError,
    UpstreamError,
)
from toolglot.fragments import read_tools, translate_messages, translate_tools
from toolglot.ir import Tool
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import TextCalls
from toolglot.tool_server.arguments import (
    MAX_DOCUMENT,
    CallError,
    Document,
    Translate,
    TranslateReceiptLine,
    TranslateResult,
)
from toolglot.tools.mcp import NAME as MCP
from toolglot.translate import ExchangeCore
from toolglot.wire import json

MAX_LINES = 1000
"""Maximum lines of a receipt."""
MAX_DEPTH = 150
"""Maximum nesting of a result: JSON-RPC readers fail at about two hundred levels."""

_SPOILT = ("upstream_truncated", "upstream_unreadable")
_ANSWERS = ("response", "stream")
_TOLD_CHARACTERS = 2000


class _TranslatedDocument(Struct, frozen=True):
    written: bytes
    receipt: Receipt
    path: str = ""
    prose: bool = False
    """True if the document is text instead of JSON."""
    cut_at: bytes = b"\n\n"
    """Prose may be cut after this."""


def known_dialect(name: str, argument: str, names: tuple[str, ...] = tuple(DIALECTS)) -> str:
    """Return the dialect's own name. Raises `CallError`."""
    plain = name.lower().replace("-", "_")
    if plain not in names:
        raise CallError(f"{argument}: {UnknownDialectError(name, names, suggest(plain, names))}")
    return plain


def bytes_of(document: Document, argument: str = "document") -> bytes:
    """Return a document as bytes. Raises `CallError` for one that is empty or too large."""
    try:
        data = document.encode() if isinstance(document, str) else json.encode(document)
    except (OverflowError, ValueError) as error:  # a number of thousands of digits, a lone surrogate
        raise CallError(f"{argument}: {error}") from None
    if not data.strip():
        raise CallError(f"{argument}: it is empty")
    if len(data) > MAX_DOCUMENT:
        raise CallError(f"{argument}: it has {len(data)} bytes, more than the limit of {MAX_DOCUMENT}")
    return data


def translate(call: Translate) -> TranslateResult:
    """Translate the document. Raises `CallError`, which describes the error and its place."""
    sides = (*DIALECTS, MCP)
    call.source, call.target = known_dialect(call.source, "from", sides), known_dialect(call.target, "to", sides)
    if MCP in (call.source, call.target) and call.kind != "tools":
        raise CallError(f"{MCP} has only tool definitions: kind must be `tools`, or name another dialect")
    if call.text_format and call.kind in _ANSWERS:
        raise CallError("text_format: it applies only to the kinds request, tools and messages")
    data = bytes_of(call.document)
    if call.kind == "stream" and not isinstance(call.document, str):
        raise CallError("document: a stream is a string of server-sent events; is this a `response`?")
    if call.kind != "stream" and is_stream(data):
        raise CallError("document: this is a stream of server-sent events: kind must be `stream`")
    try:
        return _make_result(_KINDS[call.kind](data, call))
    except DecodeError as error:
        raise _unreadable(error, data, call) from None
    except LossError as error:
        raise CallError(f"strict: {error}") from None
    except UpstreamError as error:
        raise CallError(f"document: this is an error and not a response: {shorten(str(error))}") from None
    except (RefusedError, MissingExtraError) as error:
        raise CallError(shorten(str(error))) from None


def shorten(text: str) -> str:
    return text if len(text) <= _TOLD_CHARACTERS else f"{text[:_TOLD_CHARACTERS]}…"


def _unreadable(error: DecodeError, data: bytes, call: Translate) -> CallError:
    other = other_dialect(json_or_none(data), call.kind, call.source)
    hint = f"; this looks like {other}, not {call.source}" if other else ""
    return CallError(f"document: {shorten(str(error))}{hint}")


def _make_result(done: _TranslatedDocument) -> TranslateResult:
    lines = list(done.receipt)
    shown = [TranslateReceiptLine(line.severity, line.where, line.what, line.why) for line in lines[:MAX_LINES]]
    told = TranslateResult(None, shown, done.path)
    cut = [f"the receipt has {len(lines)} lines; {MAX_LINES} are here"] if len(lines) > MAX_LINES else []
    if done.prose:
        told.document, at = _truncate(done.written, done.cut_at)
        cut += [f"the document has {len(done.written)} bytes; the first {at} are here"] if at else []
    elif len(done.written) > MAX_DOCUMENT:
        raise CallError(f"the result has {len(done.written)} bytes, more than the limit of {MAX_DOCUMENT}")
    else:
        told.document = json.decode_frame(done.written)
        if is_deep(told.document):
            raise CallError(f"document: it is nested deeper than {MAX_DEPTH} levels")
    told.cut_off = "; ".join(cut)
    return told


def _truncate(written: bytes, end: bytes) -> tuple[str, int]:
    """Truncate text to the limit, at an event boundary if possible. Returns the text and the number of characters kept,
    if not all."""
    if len(written) <= MAX_DOCUMENT:
        return written.decode(), 0
    last = written.rfind(end, 0, MAX_DOCUMENT)
    at = last + len(end) if last > 0 else MAX_DOCUMENT
    return written[:at].decode(errors="ignore"), at


def is_deep(value: Any) -> bool:
    """Return whether it is nested deeper than a result may be."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in inner for child in children if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text_calls(call: Translate) -> TextCalls | None:
    if not call.text_format:
        return None
    # Do not load all formats if none is named.
    from toolglot.textcalls import find_format
    from toolglot.textcalls.prompts.render import find_prompt

    name = call.text_format.lower().replace("-", "_")
    try:
        find_prompt(name)
        return TextCalls(format=find_format(name).name)
    except ValueError as error:
        raise CallError(f"text_format: {error} (list_dialects lists them)") from None


def _request(data: bytes, call: Translate) -> _TranslatedDocument:
    exchange = ExchangeCore(call.source, call.target, strict=call.strict, text_calls=_text_calls(call))
    if exchange.client.request.model_in_path and not exchange.upstream.request.model_in_path and not call.model:
        raise CallError(f"model: a {call.source} request does not name its model, so this argument must")
    written = exchange.request(data, model=call.model or None)
    named = exchange.sent is not None and exchange.sent.model
    return _TranslatedDocument(written, exchange.receipt, exchange.path if named else "")


def _response(data: bytes, call: Translate) -> _TranslatedDocument:
    exchange = ExchangeCore(call.target, call.source, strict=call.strict)
    return _TranslatedDocument(exchange.response(data), exchange.receipt)


def _stream(data: bytes, call: Translate) -> _TranslatedDocument:
    exchange = ExchangeCore(call.target, call.source, strict=call.strict)
    translation = exchange.stream()
    written = translation.feed(data) + translation.close()
    fault = translation.fault
    spoilt = fault is not None and fault.code in _SPOILT
    if why := not_this_stream(data, call.source, spoilt=spoilt):
        raise CallError(f"document: {why}")
    if fault is not None and spoilt:
        raise CallError(f"document: {shorten(fault.message)}")
    if call.strict and exchange.receipt.losses:
        raise LossError(exchange.receipt)
    return _TranslatedDocument(written, exchange.receipt, prose=True, cut_at=exchange.client.stream.framing.end)


def _tools(data: bytes, call: Translate) -> _TranslatedDocument:
    _refuse_other(data, call)
    text_calls = _text_calls(call)
    if text_calls is None:
        translated = translate_tools(data, call.source, call.target, model=call.model, strict=call.strict)
        return _TranslatedDocument(translated.data, translated.receipt)
    from toolglot.textcalls.prompts.render import tool_instructions

    receipt = Receipt()
    tools = read_tools(data, call.source, receipt)
    for index, tool in enumerate(tools):
        if not isinstance(tool, Tool):
            receipt.loss(f"tools[{index}]", "a tool of its vendor", "only its vendor runs it")
    if call.strict and receipt.losses:
        raise LossError(receipt)
    told = tool_instructions(text_calls.format, [tool for tool in tools if isinstance(tool, Tool)])
    return _TranslatedDocument(told.encode(), receipt, prose=True)


def _messages(data: bytes, call: Translate) -> _TranslatedDocument:
    _refuse_other(data, call)
    translated = translate_messages(
        data, call.source, call.target, model=call.model, strict=call.strict, text_calls=_text_calls(call)
    )
    return _TranslatedDocument(translated.data, translated.receipt)


def _refuse_other(data: bytes, call: Translate) -> None:
    """Refuse fragments of another dialect, which would be read without an error, but without their schemas or calls."""
    if other := other_dialect(json_or_none(data), call.kind, call.source):
        raise CallError(f"document: this looks like {other}, not {call.source}")


_KINDS: dict[str, Callable[[bytes, Translate], _TranslatedDocument]] = {
    "request": _request,
    "response": _response,
    "stream": _stream,
    "tools": _tools,
    "messages": _messages,
}
