"""Lines of a terminal with their escape sequences, as runs of equally styled text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

_SEQUENCE = re.compile(r"\x1b\[([\d;]*)m")

BLOCKS = {
    "█": "abcd",
    "▛": "abc",
    "▜": "abd",
    "▙": "acd",
    "▟": "bcd",
    "▐": "bd",
    "▌": "ac",
    "▀": "ab",
    "▄": "cd",
    "▘": "a",
    "▝": "b",
    "▖": "c",
    "▗": "d",
}
"""Characters that fill quarters of their cell: a and b are above, c and d below."""


class Style(Struct, frozen=True):
    """`color` and `background` are the terminal's numbers of colors, 0 to 15."""

    color: int | None = None
    background: int | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False


class TextRun(Struct, frozen=True):
    column: int
    text: str
    style: Style


def styled_runs(lines: list[str]) -> Iterator[list[TextRun]]:
    """The runs of each line. A style holds until it is changed, also in the next line."""
    style = Style()
    for line in lines:
        runs: list[TextRun] = []
        column = 0
        for place, part in enumerate(_SEQUENCE.split(line)):
            if place % 2:
                for code in part.split(";"):
                    style = _apply(style, int(code or 0))
            elif part:
                runs.append(TextRun(column, part, style))
                column += len(part)
        yield runs


def _apply(style: Style, code: int) -> Style:
    match code:
        case 0:
            return Style()
        case 1:
            return replace(style, bold=True)
        case 2:
            return replace(style, dim=True)
        case 7:
            return replace(style, reverse=True)
        case 22:
            return replace(style, bold=False, dim=False)
        case 27:
            return replace(style, reverse=False)
        case 39:
            return replace(style, color=None)
        case 49:
            return replace(style, background=None)
        case _ if 30 <= code <= 37:
            return replace(style, color=code - 30)
        case _ if 90 <= code <= 97:
            return replace(style, color=code - 90 + 8)
        case _ if 40 <= code <= 47:
            return replace(style, background=code - 40)
        case _ if 100 <= code <= 107:
            return replace(style, background=code - 100 + 8)
    raise ValueError(f"the escape sequence {code} is not drawn")
