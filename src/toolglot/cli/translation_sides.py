"""The two sides of a translation: a dialect, MCP, or text calls inside a dialect."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from toolglot.cli.job import TranslationJob, read_document, refuse_document
from toolglot.cli.parameters import Decorator, exit_unreadable, known_dialect, plain_name
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, RefusedError
from toolglot.fragments import SOMEBODY_ASKS
from toolglot.ir import Request, Tool
from toolglot.passes import Context
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import TextCalls
from toolglot.tools.mcp import NAME as MCP
from toolglot.translate import ExchangeCore

TEXT = "text:"
AUTO = "auto"
"""The text format that reads all the others."""
NAMES = (*DIALECTS, MCP)


class Side(Struct, frozen=True):
    """One side of a translation: `anthropic`, `text:hermes_json` (without a dialect, or in an unspecified one) or
    `anthropic+text:hermes_json`."""

    dialect: str
    format: str = ""


def side_option(flag: str, parameter: str, what: str) -> Decorator:
    return click.option(
        flag,
        parameter,
        metavar="DIALECT",
        required=True,
        callback=_convert,
        shell_complete=_complete,
        help=f"{what}: {', '.join(NAMES)}, or text:FORMAT (`toolglot parse --list`).",
    )


def _convert(context: click.Context, option: click.Parameter, value: str) -> Side:
    around, marked, name = value.partition(TEXT)
    if not marked:
        return Side(known_dialect(value, NAMES))
    # Loading all text formats is avoided if none is named.
    from toolglot.cli.text_format import known_format

    if around and not around.endswith("+"):
        raise click.BadParameter(f"{value!r} is neither {TEXT}FORMAT nor DIALECT+{TEXT}FORMAT")
    dialect = known_dialect(around.removesuffix("+"), tuple(DIALECTS)) if around else ""
    return Side(dialect, known_format(name))


def _complete(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    around, marked, begun = incomplete.partition(TEXT)
    if not marked:
        return [CompletionItem(name) for name in (*NAMES, TEXT) if name.startswith(plain_name(incomplete))]
    from toolglot.textcalls import FORMATS

    return [CompletionItem(around + marked + name) for name in FORMATS if name.startswith(plain_name(begun))]


def translate_request(exchange: ExchangeCore, data: bytes, job: TranslationJob, path: Path) -> bytes:
    require_model(exchange, job, path)
    return exchange.request(data, model=job.model, stream=job.stream)


def require_model(exchange: ExchangeCore, job: TranslationJob, path: Path) -> None:
    """Exit if there is no model. Only if both sides have it in the URL, none is needed."""
    if exchange.client.request.model_in_path and not exchange.upstream.request.model_in_path and not job.model:
        exit_unreadable(path, f"a {exchange.client.name} request has no model name: give --model")


def answer_exchange(job: TranslationJob, tools: tuple[Tool, ...] = ()) -> ExchangeCore:
    """Return the exchange whose answer is translated. Its request defines the original names and ids. Without a
    request, `tools` are the tools that may be called.
    """
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
    # From here on, only the answer is reported, and strict mode applies only to it.
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
