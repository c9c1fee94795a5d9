"""Answers with calls as text: read from plain text or from a dialect's response, and written as either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from toolglot.api import Translated
from toolglot.cli.diagnosis import BYTE_ORDER_MARK, first_event, is_stream, json_or_none, other_dialect
from toolglot.cli.job import TranslationJob, refuse_document, write_text, write_translated
from toolglot.cli.parameters import decode_chunks, exit_unreadable, read_chunks
from toolglot.cli.receipt import check_writable, write_receipt
from toolglot.cli.stream import HEAD_BYTES, forward_stream
from toolglot.cli.tool_files import tools_in
from toolglot.cli.translation_sides import answer_exchange
from toolglot.dialects import DEFAULT, find
from toolglot.errors import DecodeError, LossError, UpstreamError
from toolglot.events import Fold, unfold
from toolglot.ir import Response, Stop, Text
from toolglot.passes.event_passes import through
from toolglot.receipt import Receipt
from toolglot.textcalls.answer_as_text import answer_as_text, response_text
from toolglot.translate import ExchangeCore
from toolglot.wire import json

WRAPPER = DEFAULT
"""The dialect in which plain text is translated."""


def translate_response(job: TranslationJob) -> Receipt:
    """Translate a whole answer, as a dialect's response or as plain text."""
    data = b"".join(read_chunks(job.path)).removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        exit_unreadable(job.path, "the input is empty")
    dialect = job.source or _dialect_of(data)
    job = _with_both_dialects(job, dialect)
    exchange = answer_exchange(job, tools_in(job.tools) if job.tools is not None else ())
    try:
        given = exchange.upstream.decode_response(data) if dialect else _wrap_text(data, job)
        restored = exchange.restore(given)
    except DecodeError as error:
        refuse_document(job.path, data, "response", job.source, error)
    except UpstreamError as error:
        exit_unreadable(job.path, f"this is an error, not a response (try --kind error): {error}")
    if job.writes:
        return _write_as_text(restored, exchange, job)
    return write_translated(_whole(restored, exchange, job), job)


def _dialect_of(data: bytes) -> str:
    """Return the dialect of this response; empty if it is plain text."""
    dialect = other_dialect(json_or_none(data), "response", "")
    if dialect is None:
        return ""
    try:
        find(dialect).decode_response(data)
    except (DecodeError, UpstreamError):  # a JSON answer may have a member that looks like theirs
        return ""
    return dialect


def _with_both_dialects(job: TranslationJob, dialect: str) -> TranslationJob:
    """Return the job with a dialect on both sides. `bare` marks a side that is plain text."""
    source = dialect or WRAPPER
    return replace(job, source=source, target=job.target or source, bare=not job.target)


def _wrap_text(data: bytes, job: TranslationJob) -> Response:
    text = "".join(decode_chunks((data,), job.path))
    return Response(model=job.model or "", content=(Text(text=text),), stop=Stop("end"))


def _whole(response: Response, exchange: ExchangeCore, job: TranslationJob) -> Translated:
    encoded = exchange.client.encode_response(response, exchange.asked, exchange.receipt)
    if job.strict and exchange.receipt.losses:
        raise LossError(exchange.receipt)
    return Translated(encoded, exchange.receipt)


def _write_as_text(response: Response, exchange: ExchangeCore, job: TranslationJob) -> Receipt:
    """Write the answer with its calls as text: bare, or in the form of the requested dialect."""
    told = answer_as_text(response, job.writes, exchange.receipt)
    if job.bare:
        return write_text(response_text(told), exchange.receipt, job)
    if job.kind == "response":
        return write_translated(_whole(told, exchange, job), job)
    encoder = exchange.client.stream_encoder(exchange.asked, exchange.receipt)
    frames = b"".join(encoder.feed(event) for event in unfold(told))
    return write_text(frames.decode(), exchange.receipt, job)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def translate_stream(job: TranslationJob) -> Receipt:
    """Translate a stream. Calls parsed from text are written as the input arrives. Calls are written as text after the
    input has ended.
    """
    if job.receipt is not None:
        check_writable(job.receipt)
    dialect, arriving = (job.source, read_chunks(job.path)) if job.source else _with_dialect(read_chunks(job.path))
    job = _with_both_dialects(job, dialect)
    if not dialect:
        arriving = _as_stream(decode_chunks(arriving, job.path), job)
    exchange = answer_exchange(job, tools_in(job.tools) if job.tools is not None else ())
    if job.writes:
        return _write_as_text(_fold_stream(arriving, exchange, job), exchange, job)
    why = forward_stream(arriving, exchange.stream(), job.source)
    write_receipt(exchange.receipt, job.receipt, job.asked)
    if why is not None:
        exit_unreadable(job.path, why)
    return exchange.receipt


def _with_dialect(arriving: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Return the dialect of this stream (from its first event; empty for plain text), and the whole input."""
    head = b""
    dialect = None
    for chunk in arriving:
        head += chunk
        if (event := first_event(head)) is not None:
            dialect = other_dialect(event, "stream", "")
        if event is not None or len(head) > HEAD_BYTES or not _may_be_stream(head):
            break
    return dialect or "", chain((head,), arriving)


def _may_be_stream(head: bytes) -> bool:
    """Return whether these first bytes may still begin a stream."""
    return len(head.lstrip()) < len(b"event:") or is_stream(head)


def _as_stream(texts: Iterable[str], job: TranslationJob) -> Iterator[bytes]:
    """Yield plain text in the form of a stream, piece by piece."""
    said = False
    for text in texts:
        said = said or not text.isspace()
        yield _frame(job, {"content": text}, None)
    if not said:
        exit_unreadable(job.path, "the input is empty")
    yield _frame(job, {}, "stop")
    yield b"data: [DONE]\n\n"


def _frame(job: TranslationJob, delta: dict[str, str], reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.encode({"id": "", "model": job.model or "", "choices": [choice]}) + b"\n\n"


def _fold_stream(arriving: Iterable[bytes], exchange: ExchangeCore, job: TranslationJob) -> Response:
    decoder = exchange.upstream.stream_decoder(exchange.receipt)
    passes, fold = exchange.event_passes(exchange.reader()), Fold()
    for chunk in arriving:
        for event in through(passes, decoder.feed(chunk)):
            fold.add(event)
    for event in through(passes, decoder.close()):
        fold.add(event)
    if fold.fault is not None:
        exit_unreadable(job.path, fold.fault.message)
    return fold.response()
