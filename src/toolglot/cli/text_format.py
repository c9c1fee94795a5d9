"""How the commands are told of a text format."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from toolglot.cli.parameters import plain_name
from toolglot.textcalls import FORMATS, find_format

AUTO = "auto"
"""The format of which the text itself must tell."""


def known_format(name: str) -> str:
    """The format's own name, for one of its names.

    Raises:
        click.BadParameter: there is none.
    """
    try:
        return find_format(plain_name(name)).name
    except LookupError:
        raise click.BadParameter(f"there is no text format {name!r}; there are {', '.join(FORMATS)}") from None


def convert_format(context: click.Context, option: click.Parameter, value: str) -> str:
    return value if value == AUTO else known_format(value)


def complete_format(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in (AUTO, *FORMATS) if name.startswith(plain_name(incomplete))]
