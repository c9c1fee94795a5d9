"""Decide from the text after a quote whether a string can end there."""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from toolglot.textcalls.schemas import known_keys

State = Literal["member", "value", "after"]


class QuoteKind(Struct, frozen=True):
    """A kind of quotation mark: the possible ends of its strings, and the name of the damage. `scan` finds the next
    such mark, or everything from an escape up to it."""

    scan: re.Pattern[str]
    key: re.Pattern[str]
    damage: str


def _quote_kind(closers: str, damage: str) -> QuoteKind:
    scan = re.compile(rf"(?:\\.[^{closers}\\]*+)++|[{closers}]", re.DOTALL)
    key = re.compile(rf".(?:[^{closers}\\\n]|\\.){{0,200}}+[{closers}]\s*+:", re.DOTALL)
    return QuoteKind(scan, key, damage)


QUOTES = {
    '"': _quote_kind('"', ""),
    "'": _quote_kind("'", "single quotes"),
    "\u201c": _quote_kind('\u201d\u201c"', "curly quotes"),
    "\u2018": _quote_kind("\u2019\u2018'", "curly quotes"),
}
SPACE = re.compile(r"(?:[\s\ufeff\u200b]++|//[^\n]*+|#(?=[\s#])[^\n]*+|/\*(?:[^*]|\*(?!/)|(?!))*+\*/|(?!))*+")
# A hash begins a comment only before a space: `#fff` and `#12` are values without quotes. The lookahead runs after
# every quote, so comments are limited there to keep it linear.
_LOOKAHEAD_SPACE = re.compile(
    r"(?:[\s\ufeff\u200b]++|//[^\n]{0,300}+(?=\n|\Z)|#(?=[\s#])[^\n]{0,300}+(?=\n|\Z)|/\*(?:[^*]|\*(?!/)|(?!)){0,300}+\*/|(?!)){0,20}+"
)
_MAX_LOOKAHEAD = 100
_BARE_KEY = re.compile(r"(?:[^\W\d][\w$.-]{0,100}+|\$[\w$.-]{1,100}+)\s*+:(?!//)")
_VALUE = re.compile(r"[\"'\u201c\u2018{\[\d+.-]|(?:true|false|null|none)\b", re.IGNORECASE)
_TAIL = re.compile(r"\s*+(?:\Z|```|</?[\w:|\uff5c\u2581-]{1,80}+>|<[|\uff5c])|[ \t]*+\n")
_WORD = re.compile(r"\w", re.UNICODE)
_BEHIND_END = re.compile(
    r"[,:}\]]|\s++(?:[\"'\u201c\u2018,:{}\[\]\d-]|(?:true|false|null|none)\b|\Z)|\Z", re.IGNORECASE
)
_MEMBER_INSIDE = re.compile(r"[\"'\u201c][^\"'\u201c\u201d\n]{1,100}+[\"'\u201d]\s*+:")


class OpenContainer:
    """A container that is still open."""

    __slots__ = ("closer", "comma", "key", "schema", "state", "style", "value")

    def __init__(self, value: Any, schema: Any) -> None:
        self.value = value
        self.schema = schema
        self.closer = "}" if isinstance(value, dict) else "]"
        self.state: State = "member"
        self.comma = False
        self.key = ""
        self.style = ""

    def knows(self, key: str) -> bool:
        """Return whether the schema has such a property, or does not list its properties."""
        known = known_keys(self.schema) if self.schema is not None else None
        return known is None or key in known


class Lookahead:
    def __init__(self, text: str, stack: list[OpenContainer]) -> None:
        self.text = text
        self.stack = stack

    def skip(self, at: int) -> int:
        match = _LOOKAHEAD_SPACE.match(self.text, at)
        return match.end() if match else at

    def opens(self, at: int) -> bool:
        """Return whether the quote at `at` may be inside a string: the text after it cannot follow an end."""
        return _BEHIND_END.match(self.text, at + 1) is None

    def in_word(self, at: int) -> bool:
        """Return whether the mark at `at` is an apostrophe inside a word."""
        around = self.text[at - 1 : at] + self.text[at + 1 : at + 2]
        return self.text[at] in "'\u2019\u2018" and len(around) == 2 and all(_WORD.match(side) for side in around)

    def brackets(self, start: int, end: int) -> int:
        """Return the number of opening brackets minus closing brackets there."""
        count = self.text.count
        opened = count("{", start, end) + count("[", start, end)
        return opened - count("}", start, end) - count("]", start, end)

    def key(self, frame: OpenContainer, at: int, *, damaged: bool) -> bool:
        """Return whether there is a key and its colon at `at`. In a damaged string, only a key that is written like the
        one before it counts, and only one that the schema has, if it lists any."""
        character = self.text[at : at + 1]
        kind = QUOTES.get(character)
        match = kind.key.match(self.text, at) if kind else _BARE_KEY.match(self.text, at)
        if match is None:
            return False
        if not damaged:
            return True
        if not self._alike(frame, character):
            return False
        name = re.sub(r"\s*:$", "", match.group())
        return frame.knows(name[1:-1] if kind else name)

    def _alike(self, frame: OpenContainer, character: str) -> bool:
        return (character in QUOTES) == (frame.style != "")

    def member(self, frame: OpenContainer, at: int, *, damaged: bool = False) -> bool:
        """Return whether the next member of the container begins at `at`."""
        if isinstance(frame.value, dict):
            return self.key(frame, at, damaged=damaged)
        return _VALUE.match(self.text, at) is not None

    def closes(self, frame: OpenContainer, quote: int, *, damaged: bool) -> bool:
        """Return whether a string of the container `frame` can end with this quote."""
        at = self.skip(quote + 1)
        if at >= len(self.text):
            return not damaged
        character = self.text[at]
        if character in ",}]":
            return self._goes_on(at, damaged=damaged)
        if isinstance(frame.value, dict):
            return self._alike(frame, character) and self.key(frame, at, damaged=damaged)
        return not damaged and at > quote + 1 and (character in QUOTES or character in "{[")

    def _goes_on(self, at: int, *, damaged: bool) -> bool:
        """Return whether the commas and brackets from `at` on match the open containers, and the document continues
        after them."""
        depth = len(self.stack)
        behind = at
        for _ in range(_MAX_LOOKAHEAD):
            character = self.text[at : at + 1]
            if character in ("}", "]"):
                fits = depth > 0 and self.stack[depth - 1].closer == character
                if damaged and depth and not fits:
                    return False
                depth -= fits
                behind = at + 1
            elif character != "," or not depth:
                break
            at = self.skip(at + 1)
        else:
            return not damaged
        if at >= len(self.text):
            return not damaged or depth == 0
        if depth == 0:
            return _TAIL.match(self.text, behind) is not None if damaged else self._tail(behind)
        return self.member(self.stack[depth - 1], at, damaged=damaged)

    def _tail(self, at: int) -> bool:
        rest = self.text[at : at + 3]
        return rest[:1] not in QUOTES or (rest.strip() == rest[:1] and len(self.text) <= at + 3)

    def key_inside(self, frame: OpenContainer, start: int, end: int) -> bool:
        """Return whether a string with inner quotes seems to contain a member outside brackets."""
        depth = 0
        behind = start
        for match in _MEMBER_INSIDE.finditer(self.text, start, end):
            depth += self.brackets(behind, match.start())
            behind = match.start()
            name = match.group().rstrip(" \t\r\n:")[1:-1]
            if depth <= 0 and frame.knows(name):
                return True
        return False
