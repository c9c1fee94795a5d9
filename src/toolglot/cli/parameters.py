"""What the commands have in common: how a dialect is named, and how input is read and refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, cast

import click
from click.shell_completion import CompletionItem

from toolglot.config.problems import Problem
from toolglot.dialects import DIALECTS
from toolglot.lint.report import visible
from toolglot.tools.mcp import NAME as MCP

UNREADABLE = 2
"""Exit status: the input is not what it should be."""

CHUNK_BYTES = 64 * 1024

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def _dialect_option(names: tuple[str, ...], flag: str, parameter: str, what: str) -> Decorator:
    def convert(context: click.Context, option: click.Parameter, value: str) -> str:
        name = value.lower().replace("-", "_")
        if name not in names:
            raise click.BadParameter(f"there is no dialect {value!r}; there are {', '.join(names)}")
        return name

    def complete(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
        begun = incomplete.lower().replace("-", "_")
        return [CompletionItem(name) for name in names if name.startswith(begun)]

    return click.option(
        flag,
        parameter,
        metavar="DIALECT",
        required=True,
        callback=convert,
        shell_complete=complete,
        help=f"{what}: {', '.join(names)}.",
    )


def dialect_option(flag: str, parameter: str, what: str) -> Decorator:
    """An option that names a dialect; `openai-chat` is as good as `openai_chat`."""
    return _dialect_option(tuple(DIALECTS), flag, parameter, what)


def dialect_or_mcp_option(flag: str, parameter: str, what: str) -> Decorator:
    """The same, with `mcp` among the names."""
    return _dialect_option((*DIALECTS, MCP), flag, parameter, what)


input_file = click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-", required=False)
"""A file to read; standard input when it is not given, or `-`."""


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of the input, as they arrive."""
    try:
        standard_input = nullcontext(cast("BufferedReader", sys.stdin.buffer))
        with standard_input if str(path) == "-" else path.open("rb") as source:
            while chunk := source.read1(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        refuse(path, error.strerror or str(error))


def refuse(path: Path, why: str) -> NoReturn:
    """Ends the program: the input cannot be read, and here is what and where."""
    tell(path, why)
    raise click.exceptions.Exit(UNREADABLE)


def tell(path: Path, what: str) -> None:
    """One line on standard error about this file."""
    place = "<stdin>" if str(path) == "-" else str(path)
    click.echo(f"toolglot: {visible(place)}: {visible(' '.join(what.split()))}", err=True)


def refuse_config(problems: Iterable[Problem]) -> NoReturn:
    """Ends the program: the configuration cannot be used, and here is everything that is wrong with it."""
    for problem in problems:
        click.echo(f"toolglot: {visible(str(problem))}", err=True)
    raise click.exceptions.Exit(UNREADABLE)


def counted(number: int, noun: str, many: str = "") -> str:
    """`1 event`, `2 events`."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"
