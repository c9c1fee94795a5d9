"""Render streamed Markdown for a terminal: each character is written once, and nothing is repainted.
`MarkdownRenderer.feed` returns the next text to write. The total output does not depend on how the text is split.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolglot.chat.safe_text import SafeStream
from toolglot.columns import width_of
from toolglot.markdown_parser import (
    MAX_UNDECIDED,
    LineOpening,
    Style,
    StyledPiece,
    certain_pieces,
    is_table_divider,
    parse_inline,
    parse_opening,
    split_words,
    table_cells,
)

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
MAX_CODE = 1_000
RECHECK_CHARS = 40
"""Characters of a growing word after which the line is parsed again."""
MAX_ROWS = 200
"""Maximum rows of a table to wait for, so that its columns can be aligned."""
MAX_WIDTH = 120
"""Maximum columns of text, even if the terminal has more: longer lines are hard to read."""


def apply_style(text: str, *style: str) -> str:
    codes = ";".join(CODES[name] for name in dict.fromkeys(style))
    return f"\x1b[{codes}m{text}{RESET}" if codes and text else text


class MarkdownRenderer:
    """Converts text to terminal text. Without `colour`, marks stay and text has no style. Without a `width`, lines are
    not wrapped.
    """

    def __init__(self, *, width: int | None = None, colour: bool = True) -> None:
        self._width = None if width is None else max(min(width, MAX_WIDTH), 20)
        self._colour = colour
        self._safe = SafeStream()
        self._line = ""
        self._new = 0
        """Characters at the end of the line since it was parsed last."""
        self._out: list[str] = []
        self._opening: LineOpening | None = None
        self._column = self._indent = 0
        self._spaces = ""
        self._fence = ""
        self._rows: list[str] = []
        self._begun = False
        """True if part of the current line has been written."""

    def feed(self, text: str) -> str:
        """Return the text that can be written now."""
        self._take(self._safe.feed(text))
        return self._take_output()

    def close(self) -> str:
        """Return the rest at the end of the text: a whole line."""
        self._take(self._safe.close())
        if self._line or self._begun or self._opening is not None:
            self._end_line()
        self._end_table()
        self._fence = ""
        return self._take_output()

    def _take_output(self) -> str:
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
        # Words are shown whole, so nothing new can appear inside a word. Many models write letter by letter, and each
        # check would cost as much as a check of all held text.
        new = self._line[len(self._line) - min(self._new, RECHECK_CHARS) :]
        if self._line and (self._opening is None or len(new) == RECHECK_CHARS or any(map(str.isspace, new))):
            self._new = 0
            self._advance()

    def _advance(self) -> None:
        """Write the final part of an unfinished line."""
        if self._fence:
            if len(self._line) > MAX_CODE:
                self._code(self._line, begun=self._begun)
                self._line, self._begun = "", True
            return
        if not self._colour and self._width is None:
            self._out.append(self._line)
            self._line, self._begun = "", True
            return
        if self._opening is None:
            found = parse_opening(self._line, final=False)
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
            self._whole(parse_opening(self._line, final=True) or LineOpening("text"))
        self._line, self._opening, self._spaces = "", None, ""
        self._column = self._indent = 0
        self._begun = False

    def _whole(self, found: LineOpening) -> None:
        """Write a line that is not written yet."""
        if found.kind == "row" and self._colour and len(self._rows) < MAX_ROWS and len(self._line) <= MAX_UNDECIDED:
            self._rows.append(self._line)
            return
        self._end_table()
        if found.kind == "fence":
            self._fence = found.mark
            name = apply_style(f"  {found.shown}", "faint") if found.shown else ""
            self._out.append((f"{name}\n" if name else "") if self._colour else self._line + "\n")
        elif found.kind == "rule":
            self._out.append(apply_style("─" * min(self._width or 40, 40), "faint") if self._colour else self._line)
            self._out.append("\n")
        elif found.kind == "blank":
            self._out.append("\n")
        else:
            self._begin(found)
            self._inline(final=True)
            self._out.append("\n")

    def _begin(self, found: LineOpening) -> None:
        self._end_table()
        self._opening = found
        if found.kind == "row":
            self._opening = LineOpening("text")
            return
        shown = found.shown if self._colour else self._line[: found.length]
        self._out.append(apply_style(shown, "faint") if self._colour and found.kind == "quote" else shown)
        self._column = self._indent = width_of(shown)
        self._line = self._line[found.length :]

    def _inline(self, *, final: bool) -> None:
        assert self._opening is not None
        style = self._opening.style if self._colour else ()
        pieces = parse_inline(self._line, final=final) if self._colour else split_words(self._line, 0, len(self._line))
        if not final:
            pieces = certain_pieces(pieces, self._line)
        if not pieces:
            return
        self._line = self._line[pieces[-1].end :]
        for word in _group_words(pieces):
            self._word(word, style)

    def _word(self, word: list[StyledPiece], style: Style) -> None:
        """Write pieces without a space between them, on this line or on the next."""
        if word[0].is_space:
            self._spaces += word[0].text
            return
        width = sum(width_of(piece.text) for piece in word)
        room = self._column + len(self._spaces) + width
        if self._width is not None and room > self._width and self._column > self._indent:
            self._out.append("\n" + " " * self._indent)
            self._column, self._spaces = self._indent, ""
        self._out.append(self._spaces)
        self._out += [apply_style(piece.text, *style, *piece.style) for piece in word]
        self._column += len(self._spaces) + width
        self._spaces = ""

    def _code(self, line: str, *, begun: bool) -> None:
        self._out.append(("" if begun else "  ") + apply_style(line, "code") if self._colour else line)

    def _end_table(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._out += [f"{line}\n" for line in format_table(rows)]


def format_table(rows: list[str]) -> list[str]:
    """Return the rows of a table with aligned columns and a bold head."""
    has_head = len(rows) > 1 and is_table_divider(rows[1])
    bodies = [row for number, row in enumerate(rows) if not (number == 1 and has_head)]
    grid = [[parse_inline(cell, final=True) for cell in table_cells(row)] for row in bodies]
    count = max(map(len, grid))
    widths = [max((_width(row[column]) for row in grid if column < len(row)), default=0) for column in range(count)]
    lines: list[str] = []
    for number, row in enumerate(grid):
        style = ("bold",) if has_head and number == 0 else ()
        shown = [
            "".join(apply_style(piece.text, *style, *piece.style) for piece in cell)
            + " " * (widths[column] - _width(cell))
            for column, cell in enumerate(row)
        ]
        lines.append("  ".join(shown).rstrip())
        if has_head and number == 0:
            lines.append(apply_style("  ".join("─" * width for width in widths), "faint"))
    return lines


def _width(pieces: Iterable[StyledPiece]) -> int:
    return sum(width_of(piece.text) for piece in pieces)


def _group_words(pieces: list[StyledPiece]) -> list[list[StyledPiece]]:
    """Group pieces without a space between them. Styled text is wrapped at its own spaces."""
    found: list[list[StyledPiece]] = []
    glued = False
    for piece in pieces:
        if piece.text.isspace():
            found.append([StyledPiece(piece.text, (), piece.end)])
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
