"""The width of text in a terminal."""

from __future__ import annotations

import unicodedata


def width_of(text: str) -> int:
    """Return the number of columns of a text."""
    return len(text) if text.isascii() else sum(map(columns_of, text))


def fitting(text: str, width: int, start: int = 0) -> int:
    """Return the number of characters that fit, at least one."""
    used = 0
    for number in range(start, len(text)):
        used += columns_of(text[number])
        if used > width:
            return max(number, start + 1)
    return len(text)


def cut(text: str, width: int) -> str:
    """Truncate text to the width, with an ellipsis."""
    return text if fitting(text, width) == len(text) else f"{text[: fitting(text, width - 1)]}…"


def columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
