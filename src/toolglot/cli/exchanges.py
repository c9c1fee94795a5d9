"""The exchange of a request or an answer that the command line translates."""

from __future__ import annotations

from pathlib import Path

from toolglot.cli.job import TranslationJob, read_document, refuse_document
from toolglot.cli.parameters import exit_unreadable
from toolglot.cli.translation_sides import AUTO
from toolglot.errors import DecodeError, RefusedError
from toolglot.fragments import SOMEBODY_ASKS
from toolglot.ir import Request, Tool
from toolglot.passes import Context
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore


def translate_request(exchange: ExchangeCore, data: bytes, job: TranslationJob, path: Path) -> bytes:
    require_model(exchange, job, path)
    return exchange.request(data, model=job.model, stream=job.stream)


def require_model(exchange: ExchangeCore, job: TranslationJob, path: Path) -> None:
    """Exit if there is no model: one is needed unless it is in the URL on both sides."""
    if exchange.client.request.model_in_path and not exchange.upstream.request.model_in_path and not job.model:
        exit_unreadable(path, f"a {exchange.client.name} request has no model name: give --model")


def answer_exchange(job: TranslationJob, tools: tuple[Tool, ...] = ()) -> ExchangeCore:
    """Return the exchange whose answer is translated. Its request defines the original names and ids. `tools` may be
    called if there is no request."""
    # No model can write calls in all formats at once; they can only be parsed.
    text_calls = TextCalls(format=job.reads, rescue=job.reads == AUTO) if job.reads else None
    if job.request is None and not tools:
        return ExchangeCore(job.target, job.source, strict=job.strict, text_calls=text_calls)
    contexts: list[Context] = []

    def remember(request: Request, context: Context) -> Request:
        contexts.append(context)
        return request

    exchange = ExchangeCore(job.target, job.source, passes=(*REQUEST_PASSES, remember), text_calls=text_calls)
    if job.request is None:
        exchange.rewrite(Request(model=job.model or "", messages=(SOMEBODY_ASKS,), tools=tools))
    else:
        exchange.receipt = job.asked
        _add_request(exchange, job, job.request)
    # From here on only the answer is reported, and strictness is about it.
    exchange.receipt = contexts[-1].receipt = Receipt()
    exchange.strict = job.strict
    return exchange


def _add_request(exchange: ExchangeCore, job: TranslationJob, path: Path) -> None:
    data = read_document(path, "request", job.target)
    try:
        translate_request(exchange, data, job, path)
    except DecodeError as error:
        refuse_document(path, data, "request", job.target, error)
    except RefusedError as error:
        exit_unreadable(path, str(error))
