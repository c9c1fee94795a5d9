"""How much room a text takes in a terminal."""

from __future__ import annotations

import unicodedata


def width_of(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(map(columns_of, text))


def columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
