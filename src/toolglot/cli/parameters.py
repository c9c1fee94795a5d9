"""What the commands have in common: how a dialect is named, and how input is read and refused."""

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

from toolglot.config.problems import Problem, nearest
from toolglot.dialects import DIALECTS
from toolglot.lint.report import visible

UNREADABLE = 2
"""Exit status: the input is not what it should be."""

CHUNK_BYTES = 64 * 1024

CALLED = {alias: manifest.name for manifest in DIALECTS.manifests.values() for alias in manifest.aliases}
"""Dialects as people call them."""

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # which is not generic before 8.2


def plain_name(value: str) -> str:
    """`openai-chat` is as good as `openai_chat`."""
    return value.lower().replace("-", "_")


def known_dialect(value: str, names: tuple[str, ...]) -> str:
    """The dialect of that name.

    Raises:
        click.BadParameter: there is none.
    """
    if (name := plain_name(value)) not in names:
        all_names, near = f"there are {', '.join(names)}", _meant(name, names)
        told = f"did you mean {' or '.join(f'`{each}`' for each in near)}? ({all_names})" if near else all_names
        raise click.BadParameter(f"there is no dialect {value!r}; {told}")
    return name


def _meant(name: str, names: tuple[str, ...]) -> list[str]:
    """The dialects that may have been meant: those that begin so, or the one that is near."""
    if begun := [each for each in names if name and each.startswith(f"{name}_")]:
        return begun
    near = nearest(name, (*names, *CALLED))
    return [] if near is None else [CALLED.get(near, near)]


class Choice(_Choice):
    """Says which one may have been meant. `meant` is what people write, and what they mean."""

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


def decoded(arriving: Iterable[bytes], path: Path) -> Iterator[str]:
    """The text of an input as it arrives, in pieces that are whole characters."""
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
        refuse(path, f"invalid UTF-8 at byte {at + error.start}")


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
