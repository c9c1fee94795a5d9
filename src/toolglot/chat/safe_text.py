"""Make text of models, tools and servers safe for the terminal that shows it.

Escape sequences are removed completely; so are other control characters and characters that change the writing
direction (which can disguise text).

A text that needs approval must stay complete: `reveal_all` spells out its invisible characters.
"""

from __future__ import annotations

import re
import unicodedata
from json import dumps

TAB = 4
MAX_ESCAPE = 4096
"""Maximum characters of a sequence (a title, a link) to wait for. Longer sequences are cut."""

# The start of a string (a title, a link, the clipboard), and its possible content. For a terminal, a string that starts
# inside another one ends it. This also means that no character is scanned from more than one start.
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*"
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|\x9b[0-?]*[ -/]*[@-~]"
    rf"|{_STRING}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_UNFINISHED = re.compile(rf"(?:\x1b(?:\[[0-?]*[ -/]*|[ -/]*)|\x9b[0-?]*[ -/]*|{_STRING}\x1b?)$")
_KEPT = frozenset("\n\t")
_HIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp", "Cn", "Co"})
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")
"""Parts of words and of emoji."""
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters that count as printable but are invisible: fillers, variation selectors (Unicode's
Default_Ignorable_Code_Point), the blank Braille pattern.
"""


def make_safe(text: str) -> str:
    """Return the text with its line ends, without other characters that move the cursor. Tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text.replace("\r\n", "\n")).expandtabs(TAB)
    return "".join(filter(_is_visible, text))


def one_line(text: str, longest: int = 0) -> str:
    """Same, in one line, of at most this many characters."""
    line = " ".join(make_safe(text[: 4 * longest] if longest else text).split())
    return line if not longest or len(line) <= longest else f"{line[: longest - 1]}…"


def reveal_all(text: str) -> str:
    """Return the whole text in one line. Characters that do not print or are invisible become JSON escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_spell, text))


def _spell(character: str) -> str:
    is_seen = character.isprintable() and character not in _UNSEEN
    return character if is_seen else dumps(character)[1:-1]


def _is_visible(character: str) -> bool:
    if character in _KEPT or character in _JOINERS:
        return True
    category = unicodedata.category(character)
    return category not in _HIDDEN and not (category == "Cf" or character in _DIRECTIONS)


class SafeStream:
    """Same, for text that arrives in pieces: an incomplete sequence is held back."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        unfinished = _UNFINISHED.search(text, max(len(text) - MAX_ESCAPE, 0))
        end = len(text) if unfinished is None else unfinished.start()
        if text[end - 1 : end] == "\r" and end == len(text):
            end -= 1
        self._held = text[end:]
        return make_safe(text[:end])

    def close(self) -> str:
        held, self._held = self._held, ""
        return make_safe(held)
