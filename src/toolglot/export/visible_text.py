"""Make control characters and hidden characters visible in texts of models and tools on a page."""

from __future__ import annotations

import re
import unicodedata

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
"""Parts of words and of emoji."""


def make_visible(text: str) -> str:
    """Return the text with its lines and tabs; other control and direction characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return _UNUSUAL.sub(_escape_match, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Same, in one line."""
    return " ".join(make_visible(text).split())


def _escape_match(match: re.Match[str]) -> str:
    character = match[0]
    if character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
