"""Markdown that comes in pieces, for a terminal: each character is written once, and nothing is ever repainted.

`Renderer.feed` returns what to write next. However the text is cut into pieces, all that is written in the end is the
same.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolglot.chat.markdown import (
    LONGEST_WAIT,
    Opening,
    Piece,
    Style,
    cells,
    certain,
    inline,
    is_divider,
    opening,
    words,
)
from toolglot.chat.safe import SafeStream
from toolglot.columns import width_of

CODES = {
    "bold": "1",
    "faint": "2",
    "italic": "3",
    "strike": "9",
    "heading": "4",
    "code": "36",
    "link": "34",
    "error": "31",
    "good": "32",
    "ask": "33",
}
RESET = "\x1b[0m"
LONGEST_CODE = 1_000
EAGER = 40
"""Characters of a word that is still growing after which the line is looked at again."""
MAX_ROWS = 200
"""Rows of a table that are waited for, so that its columns can be aligned."""
WIDEST = 120
"""Columns of text, also where the terminal has more: longer lines are hard to read."""


def styled(text: str, *style: str) -> str:
    """The text in these styles."""
    codes = ";".join(CODES[name] for name in dict.fromkeys(style))
    return f"\x1b[{codes}m{text}{RESET}" if codes and text else text


class Renderer:
    """Text in, terminal text out. `colour` false leaves the marks as they stand and styles nothing; without a `width`
    no line is broken."""

    def __init__(self, *, width: int | None = None, colour: bool = True) -> None:
        self._width = None if width is None else max(min(width, WIDEST), 20)
        self._colour = colour
        self._safe = SafeStream()
        self._line = ""
        self._new = 0
        """Characters at the end of the line since it was looked at last."""
        self._out: list[str] = []
        self._opening: Opening | None = None
        self._column = self._indent = 0
        self._spaces = ""
        self._fence = ""
        self._rows: list[str] = []
        self._begun = False
        """Something of the current line has been written."""

    def feed(self, text: str) -> str:
        """What can be written now."""
        self._take(self._safe.feed(text))
        return self._written()

    def close(self) -> str:
        """What is left, at the end of the text: a whole line."""
        self._take(self._safe.close())
        if self._line or self._begun or self._opening is not None:
            self._end_line()
        self._end_table()
        self._fence = ""
        return self._written()

    def _written(self) -> str:
        out, self._out = "".join(self._out), []
        return out

    def _take(self, text: str) -> None:
        first, *others = text.split("\n")
        self._line += first
        self._new += len(first)
        for part in others:
            self._end_line()
            self._line = part
            self._new = len(part)
        # Words are shown whole, so inside of one there is nothing new to see: letter by letter, as many models write,
        # each letter would otherwise cost as much as all that is held back.
        new = self._line[len(self._line) - min(self._new, EAGER) :]
        if self._line and (self._opening is None or len(new) == EAGER or any(map(str.isspace, new))):
            self._new = 0
            self._advance()

    def _advance(self) -> None:
        """Write what is certain of a line that has not ended."""
        if self._fence:
            if len(self._line) > LONGEST_CODE:
                self._code(self._line, begun=self._begun)
                self._line, self._begun = "", True
            return
        if not self._colour and self._width is None:
            self._out.append(self._line)
            self._line, self._begun = "", True
            return
        if self._opening is None:
            found = opening(self._line, final=False)
            if found is None:
                return
            self._begin(found)
        self._inline(final=False)

    def _end_line(self) -> None:
        if self._fence:
            if not self._begun and _closes(self._line, self._fence):
                self._fence = ""
                self._out.append("" if self._colour else self._line + "\n")
            else:
                self._code(self._line, begun=self._begun)
                self._out.append("\n")
        elif self._opening is not None:
            self._inline(final=True)
            self._out.append("\n")
        elif self._begun or (not self._colour and self._width is None):
            self._out.append(self._line + "\n")
        else:
            self._whole(opening(self._line, final=True) or Opening("text"))
        self._line, self._opening, self._spaces = "", None, ""
        self._column = self._indent = 0
        self._begun = False

    def _whole(self, found: Opening) -> None:
        """A line of which nothing has been written yet."""
        if found.kind == "row" and self._colour and len(self._rows) < MAX_ROWS and len(self._line) <= LONGEST_WAIT:
            self._rows.append(self._line)
            return
        self._end_table()
        if found.kind == "fence":
            self._fence = found.mark
            name = styled(f"  {found.shown}", "faint") if found.shown else ""
            self._out.append((f"{name}\n" if name else "") if self._colour else self._line + "\n")
        elif found.kind == "rule":
            self._out.append(styled("─" * min(self._width or 40, 40), "faint") if self._colour else self._line)
            self._out.append("\n")
        elif found.kind == "blank":
            self._out.append("\n")
        else:
            self._begin(found)
            self._inline(final=True)
            self._out.append("\n")

    def _begin(self, found: Opening) -> None:
        self._end_table()
        self._opening = found
        if found.kind == "row":
            self._opening = Opening("text")
            return
        shown = found.shown if self._colour else self._line[: found.length]
        self._out.append(styled(shown, "faint") if self._colour and found.kind == "quote" else shown)
        self._column = self._indent = width_of(shown)
        self._line = self._line[found.length :]

    def _inline(self, *, final: bool) -> None:
        assert self._opening is not None
        style = self._opening.style if self._colour else ()
        pieces = inline(self._line, final=final) if self._colour else words(self._line, 0, len(self._line))
        if not final:
            pieces = certain(pieces, self._line)
        if not pieces:
            return
        self._line = self._line[pieces[-1].end :]
        for word in _together(pieces):
            self._word(word, style)

    def _word(self, word: list[Piece], style: Style) -> None:
        """Pieces without a space between them, on this line or on the next."""
        if word[0].is_space:
            self._spaces += word[0].text
            return
        width = sum(width_of(piece.text) for piece in word)
        room = self._column + len(self._spaces) + width
        if self._width is not None and room > self._width and self._column > self._indent:
            self._out.append("\n" + " " * self._indent)
            self._column, self._spaces = self._indent, ""
        self._out.append(self._spaces)
        self._out += [styled(piece.text, *style, *piece.style) for piece in word]
        self._column += len(self._spaces) + width
        self._spaces = ""

    def _code(self, line: str, *, begun: bool) -> None:
        self._out.append(("" if begun else "  ") + styled(line, "code") if self._colour else line)

    def _end_table(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._out += [f"{line}\n" for line in table(rows)]


def table(rows: list[str]) -> list[str]:
    """The rows of a table with their columns aligned; its head is bold."""
    has_head = len(rows) > 1 and is_divider(rows[1])
    bodies = [row for number, row in enumerate(rows) if not (number == 1 and has_head)]
    grid = [[inline(cell, final=True) for cell in cells(row)] for row in bodies]
    count = max(map(len, grid))
    widths = [max((_width(row[column]) for row in grid if column < len(row)), default=0) for column in range(count)]
    lines: list[str] = []
    for number, row in enumerate(grid):
        style = ("bold",) if has_head and number == 0 else ()
        shown = [
            "".join(styled(piece.text, *style, *piece.style) for piece in cell) + " " * (widths[column] - _width(cell))
            for column, cell in enumerate(row)
        ]
        lines.append("  ".join(shown).rstrip())
        if has_head and number == 0:
            lines.append(styled("  ".join("─" * width for width in widths), "faint"))
    return lines


def _width(pieces: Iterable[Piece]) -> int:
    return sum(width_of(piece.text) for piece in pieces)


def _together(pieces: list[Piece]) -> list[list[Piece]]:
    """Runs of pieces without a space between them, and the spaces. Styled text is broken at its own spaces."""
    found: list[list[Piece]] = []
    glued = False
    for piece in pieces:
        if piece.text.isspace():
            found.append([Piece(piece.text, (), piece.end)])
            glued = False
        elif glued:
            found[-1].append(piece)
        else:
            found.append([piece])
            glued = True
    return found


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(line) - len(line.lstrip(" ")) <= 3 and len(bare) >= len(fence) and set(bare) == {fence[0]}
