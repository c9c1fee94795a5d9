"""Text of models and tools on a page: what would act on a terminal, or hide in a text, is made visible."""

from __future__ import annotations

import re
import unicodedata

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
"""Parts of words and of emoji."""


def shown(text: str) -> str:
    """The text with its lines and tabs; other controls, and what changes the direction of writing, as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return _UNUSUAL.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same in one line."""
    return " ".join(shown(text).split())


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    if character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
