"""A text table for a terminal: cells are wrapped, columns share the width, and lines separate the rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap

Row = Sequence[str]


def render_table(head: Row, rows: Sequence[Row], width: int, *, ruled: bool = True) -> list[str]:
    """Return the lines of the table. The first column is as wide as necessary, the others share the rest."""
    first = max(len(row[0]) for row in (head, *rows))
    others = len(head) - 1
    each = max((width - first - others) // others, 8)
    widths = [first, *(min(each, _widest(column)) for column in zip(*(row[1:] for row in (head, *rows)), strict=True))]
    rule = "─" * min(width, sum(widths) + others)
    lines = [*_lines(head, widths), rule]
    for row in rows:
        lines += _lines(row, widths)
        if ruled:
            lines.append(rule)
    return lines


def _widest(column: Sequence[str]) -> int:
    return max(len(cell) for cell in column)


def _lines(row: Row, widths: Sequence[int]) -> list[str]:
    cells = [wrap(cell, width, break_on_hyphens=False) for cell, width in zip(row, widths, strict=True)]
    return [
        " ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip_longest(*cells, fillvalue="")
    ]
