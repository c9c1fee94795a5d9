"""The exchange of a request or of an answer that the command line translates."""

from __future__ import annotations

from pathlib import Path

from toolglot.cli.job import Job, read, refuse_document
from toolglot.cli.parameters import refuse
from toolglot.cli.sides import AUTO
from toolglot.errors import DecodeError, RefusedError
from toolglot.fragments import SOMEBODY_ASKS
from toolglot.ir import Request, Tool
from toolglot.passes import Context
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import Exchange


def ask(exchange: Exchange, data: bytes, job: Job, path: Path) -> bytes:
    """The upstream's request."""
    need_model(exchange, job, path)
    return exchange.request(data, model=job.model, stream=job.stream)


def need_model(exchange: Exchange, job: Job, path: Path) -> None:
    """Ends the program where no model is told: one is needed unless it stands in the URL on both sides."""
    if exchange.client.request.model_in_path and not exchange.upstream.request.model_in_path and not job.model:
        refuse(path, f"a {exchange.client.name} request does not name its model: give --model")


def answered(job: Job, tools: tuple[Tool, ...] = ()) -> Exchange:
    """The exchange whose answer is translated. Its request tells what the answer's names and ids were.

    `tools` are those that may be called, where there is no request to tell them.
    """
    # Nobody can be asked to write calls in all formats at once; they can only be found.
    text_calls = TextCalls(format=job.reads, rescue=job.reads == AUTO) if job.reads else None
    if job.request is None and not tools:
        return Exchange(job.target, job.source, strict=job.strict, text_calls=text_calls)
    contexts: list[Context] = []

    def remember(request: Request, context: Context) -> Request:
        contexts.append(context)
        return request

    exchange = Exchange(job.target, job.source, passes=(*REQUEST_PASSES, remember), text_calls=text_calls)
    if job.request is None:
        exchange.rewrite(Request(model=job.model or "", messages=(SOMEBODY_ASKS,), tools=tools))
    else:
        exchange.receipt = job.asked
        _asked(exchange, job, job.request)
    # From here on the answer alone is told, and strictness is about it.
    exchange.receipt = contexts[-1].receipt = Receipt()
    exchange.strict = job.strict
    return exchange


def _asked(exchange: Exchange, job: Job, path: Path) -> None:
    data = read(path, "request", job.target)
    try:
        ask(exchange, data, job, path)
    except DecodeError as error:
        refuse_document(path, data, "request", job.target, error)
    except RefusedError as error:
        refuse(path, str(error))
