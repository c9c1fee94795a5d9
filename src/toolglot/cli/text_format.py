"""Command line parameters for text formats."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from toolglot.cli.parameters import plain_name
from toolglot.textcalls import AUTO, FORMATS, find_format


def known_format(name: str) -> str:
    """Return the canonical name of a format, for any of its names.

    Raises:
        click.BadParameter: there is none.
    """
    try:
        return find_format(plain_name(name)).name
    except ValueError as error:
        raise click.BadParameter(f"{error} (`toolglot parse --list` shows them)") from None


def convert_format(context: click.Context, option: click.Parameter, value: str) -> str:
    return known_format(value)


def complete_format(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in (AUTO, *FORMATS) if name.startswith(plain_name(incomplete))]
