"""Tables, for a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""
    words: bool = False
    """It has no numbers that should stand below each other."""


def as_text(table: Table) -> str:
    lines = [table.head, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.head))]

    def line(cells: tuple[str, ...]) -> str:
        first, *others = (
            cell.ljust(width) if column == 0 or table.words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join((first, *others)).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    note = [table.note] if table.note else []
    return "\n".join(["", table.title, *note, line(table.head), rule, *map(line, table.rows)])


def as_markdown(table: Table) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

    note = [table.note, ""] if table.note else []
    left = len(table.head) if table.words else 1
    marks = f"|{'|'.join('---' if column < left else '--:' for column in range(len(table.head)))}|"
    return "\n".join([f"## {table.title}", "", *note, line(table.head), marks, *map(line, table.rows), ""])


MISSING = "-"


def number(value: float | None) -> str:
    """With three digits that say something."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def times(value: float | None) -> str:
    return MISSING if value is None else f"{number(value)}x"


def megabytes(size: float | None) -> str:
    return MISSING if size is None else number(size / 1e6)
