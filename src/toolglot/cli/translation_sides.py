"""The two sides of a translation: a dialect, MCP, or calls as text inside a dialect."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from toolglot.cli.parameters import Decorator, known_dialect, plain_name
from toolglot.dialects import DIALECTS
from toolglot.tools.mcp import NAME as MCP

TEXT = "text:"
AUTO = "auto"
"""The text format that reads all the others."""
NAMES = (*DIALECTS, MCP)


class Side(Struct, frozen=True):
    """`anthropic`, `text:hermes_json` (in no dialect, or in an unspecified one) or `anthropic+text:hermes_json`."""

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
