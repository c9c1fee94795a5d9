"""Helpers that the commands share: dialect options, reading input and rejecting it."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import click
from click.shell_completion import CompletionItem

from toolglot.config.problems import Problem
from toolglot.dialects import DIALECTS, suggest
from toolglot.lint.report import visible
from toolglot.nearest import nearest

UNREADABLE = 2
"""Exit status: the input is invalid."""

CHUNK_BYTES = 64 * 1024

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # which is not generic before 8.2


def plain_name(value: str) -> str:
    """Accept `openai-chat` for `openai_chat`."""
    return value.lower().replace("-", "_")


def known_dialect(value: str, names: tuple[str, ...]) -> str:
    """Return the dialect of that name.

    Raises:
        click.BadParameter: there is none.
    """
    if (name := plain_name(value)) not in names:
        all_names, near = f"there are {', '.join(names)}", suggest(name, names)
        told = f"did you mean {' or '.join(f'`{each}`' for each in near)}? ({all_names})" if near else all_names
        raise click.BadParameter(f"there is no dialect {value!r}; {told}")
    return name


class SuggestingChoice(_Choice):
    """Suggests the value that may have been meant. `meant` maps common mistakes to values."""

    def __init__(self, choices: Iterable[str], meant: Mapping[str, str] = {}) -> None:
        super().__init__(tuple(choices))
        self._meant = meant

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = tuple(map(str, self.choices))
        if isinstance(value, str) and value not in known and (near := nearest(value, (*known, *self._meant))):
            meant = self._meant.get(near, near)
            self.fail(f"{value!r} is not one of {', '.join(known)}; did you mean `{meant}`?", param, ctx)
        return super().convert(value, param, ctx)


def dialect_option(flag: str, parameter: str, what: str) -> Decorator:
    """An option that names a dialect."""
    names = tuple(DIALECTS)

    def convert(context: click.Context, option: click.Parameter, value: str) -> str:
        return known_dialect(value, names)

    def complete(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names if name.startswith(plain_name(incomplete))]

    return click.option(
        flag,
        parameter,
        metavar="DIALECT",
        required=True,
        callback=convert,
        shell_complete=complete,
        help=f"{what}: {', '.join(names)}.",
    )


input_file = click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-", required=False)
"""A file to read; standard input if it is missing or `-`."""


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of the input, as they arrive."""
    try:
        standard_input = nullcontext(cast("BufferedReader", sys.stdin.buffer))
        with standard_input if str(path) == "-" else path.open("rb") as source:
            while chunk := source.read1(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        exit_unreadable(path, error.strerror or str(error))


def decode_chunks(arriving: Iterable[bytes], path: Path) -> Iterator[str]:
    """Yield the text of an input as it arrives, in pieces of whole characters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = at = 0
    begun = False
    try:
        for chunk in chain(arriving, (b"",)):
            at = read - len(decoder.getstate()[0])
            text = decoder.decode(chunk, final=not chunk)
            read += len(chunk)
            if text:
                yield text if begun else text.removeprefix("\ufeff")
                begun = True
    except UnicodeDecodeError as error:
        exit_unreadable(path, f"invalid UTF-8 at byte {at + error.start}")


def exit_unreadable(path: Path, why: str) -> NoReturn:
    """Exit: the input cannot be read; says what and where."""
    print_note(path, why)
    raise click.exceptions.Exit(UNREADABLE)


def print_note(path: Path, what: str) -> None:
    """Print one line on standard error about this file."""
    place = "<stdin>" if str(path) == "-" else str(path)
    click.echo(f"toolglot: {visible(place)}: {visible(' '.join(what.split()))}", err=True)


def exit_bad_config(problems: Iterable[Problem]) -> NoReturn:
    """Exit: the configuration is invalid; prints all its problems."""
    for problem in problems:
        click.echo(f"toolglot: {visible(str(problem))}", err=True)
    raise click.exceptions.Exit(UNREADABLE)


def count_noun(number: int, noun: str, many: str = "") -> str:
    """Format a number with its noun: `1 event`, `2 events`."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


upstream_key_option = click.option(
    "--upstream-key-env",
    "key_variables",
    multiple=True,
    metavar="NAME",
    help="Environment variable that holds this upstream's API key.",
)
"""The key option of all commands that accept upstreams."""
