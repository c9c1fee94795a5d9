"""Answers with calls as text: read from a plain text or from a dialect's response, written as either of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from toolglot.api import Translated
from toolglot.cli.diagnosis import BYTE_ORDER_MARK, first_event, is_stream, json_or_none, other_dialect
from toolglot.cli.exchanges import answered
from toolglot.cli.job import Job, put, put_text, refuse_document
from toolglot.cli.parameters import chunks, decoded, refuse
from toolglot.cli.receipt import check_writable, give
from toolglot.cli.stream import HEAD_BYTES, hand_on
from toolglot.cli.tool_files import tools_in
from toolglot.dialects import DEFAULT, find
from toolglot.errors import DecodeError, LossError, UpstreamError
from toolglot.events import Fold, unfold
from toolglot.ir import Response, Stop, Text
from toolglot.passes.event_passes import through
from toolglot.receipt import Receipt
from toolglot.textcalls.answer_as_text import answer_as_text, response_text
from toolglot.translate import Exchange
from toolglot.wire import json

WRAPPER = DEFAULT
"""The dialect in which a text of no dialect goes through the translation."""


def translate_response(job: Job) -> Receipt:
    """A whole answer, as a dialect's response or as plain text."""
    data = b"".join(chunks(job.path)).removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        refuse(job.path, "the input is empty")
    dialect = job.source or _dialect_of(data)
    job = _settled(job, dialect)
    exchange = answered(job, tools_in(job.tools) if job.tools is not None else ())
    try:
        given = exchange.upstream.decode_response(data) if dialect else _wrapped(data, job)
        restored = exchange.restore(given)
    except DecodeError as error:
        refuse_document(job.path, data, "response", job.source, error)
    except UpstreamError as error:
        refuse(job.path, f"this is an error and not a response (try --kind error): {error}")
    if job.writes:
        return _tell(restored, exchange, job)
    return put(_whole(restored, exchange, job), job)


def _dialect_of(data: bytes) -> str:
    """The dialect that this is a response of; none, when it is a text."""
    dialect = other_dialect(json_or_none(data), "response", "")
    if dialect is None:
        return ""
    try:
        find(dialect).decode_response(data)
    except (DecodeError, UpstreamError):  # an answer in JSON may have a member that looks like theirs
        return ""
    return dialect


def _settled(job: Job, dialect: str) -> Job:
    """The job with a dialect on both sides. Where it asks for none, `bare` tells that plain text is meant."""
    source = dialect or WRAPPER
    return replace(job, source=source, target=job.target or source, bare=not job.target)


def _wrapped(data: bytes, job: Job) -> Response:
    text = "".join(decoded((data,), job.path))
    return Response(model=job.model or "", content=(Text(text=text),), stop=Stop("end"))


def _whole(response: Response, exchange: Exchange, job: Job) -> Translated:
    encoded = exchange.client.encode_response(response, exchange.asked, exchange.receipt)
    if job.strict and exchange.receipt.losses:
        raise LossError(exchange.receipt)
    return Translated(encoded, exchange.receipt)


def _tell(response: Response, exchange: Exchange, job: Job) -> Receipt:
    """The answer with its calls as text: bare, or in the form of the dialect that was asked for."""
    told = answer_as_text(response, job.writes, exchange.receipt)
    if job.bare:
        return put_text(response_text(told), exchange.receipt, job)
    if job.kind == "response":
        return put(_whole(told, exchange, job), job)
    encoder = exchange.client.stream_encoder(exchange.asked, exchange.receipt)
    frames = b"".join(encoder.feed(event) for event in unfold(told))
    return put_text(frames.decode(), exchange.receipt, job)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def translate_stream(job: Job) -> Receipt:
    """A stream. Calls that are read from text come as the input arrives; calls are told as text once it has ended."""
    if job.receipt is not None:
        check_writable(job.receipt)
    dialect, arriving = (job.source, chunks(job.path)) if job.source else _with_dialect(chunks(job.path))
    job = _settled(job, dialect)
    if not dialect:
        arriving = _as_stream(decoded(arriving, job.path), job)
    exchange = answered(job, tools_in(job.tools) if job.tools is not None else ())
    if job.writes:
        return _tell(_folded(arriving, exchange, job), exchange, job)
    why = hand_on(arriving, exchange.stream(), job.source)
    give(exchange.receipt, job.receipt, job.asked)
    if why is not None:
        refuse(job.path, why)
    return exchange.receipt


def _with_dialect(arriving: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """The dialect whose stream this is, by its first event, none when it is a text; and all of the input."""
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
    """So few bytes may be the beginning of anything."""
    return len(head.lstrip()) < len(b"event:") or is_stream(head)


def _as_stream(texts: Iterable[str], job: Job) -> Iterator[bytes]:
    """A plain text in the form of a stream, piece by piece."""
    said = False
    for text in texts:
        said = said or not text.isspace()
        yield _frame(job, {"content": text}, None)
    if not said:
        refuse(job.path, "the input is empty")
    yield _frame(job, {}, "stop")
    yield b"data: [DONE]\n\n"


def _frame(job: Job, delta: dict[str, str], reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.encode({"id": "", "model": job.model or "", "choices": [choice]}) + b"\n\n"


def _folded(arriving: Iterable[bytes], exchange: Exchange, job: Job) -> Response:
    decoder = exchange.upstream.stream_decoder(exchange.receipt)
    passes, fold = exchange.event_passes(exchange.reader()), Fold()
    for chunk in arriving:
        for event in through(passes, decoder.feed(chunk)):
            fold.add(event)
    for event in through(passes, decoder.close()):
        fold.add(event)
    if fold.fault is not None:
        refuse(job.path, fold.fault.message)
    return fold.response()
