"""Construct a short text that matches a regular expression.

The expression is parsed and never run: it is untrusted, and running it could take forever. Literals, classes, groups,
alternatives and repeats are supported; look-around and back-references are not.
"""

from __future__ import annotations

import re

MAX_LENGTH = 4000
MAX_DEPTH = 40
_CLASSES = {"d": "1", "w": "a", "s": " ", "D": "x", "W": "-", "S": "x"}
_MATCHES = {"d": r"\d", "w": r"\w", "s": r"\s", "D": r"\D", "W": r"\W", "S": r"\S"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_CANDIDATES = "aA1x_- .zZ9/:!é"
_REPEAT = re.compile(r"(?:\*|\+|\?|\{(\d*)(,?)(\d*)\})[?+]?")
_GROUP = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)")


class _UnsupportedPatternError(Exception):
    """Raised for unsupported syntax."""


def matching_text(pattern: str, at_least: int = 0) -> str | None:
    """Return a matching text of at least `at_least` characters; None if the pattern is not supported."""
    for more in (0, 1, at_least):
        try:
            text = _SampleWriter(pattern, more).write()
        except _UnsupportedPatternError:
            return None
        if len(text) >= at_least:
            return text
    return text.ljust(at_least, "x") if "$" not in pattern and r"\Z" not in pattern else text


class _SampleWriter:
    """One pass over an expression. `more`: how often to repeat what may repeat without limit."""

    def __init__(self, pattern: str, more: int) -> None:
        self._pattern = pattern
        self._more = more
        self._at = 0
        self._depth = 0

    def write(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise _UnsupportedPatternError
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise _UnsupportedPatternError
        self._at += 1
        return character

    def _alternatives(self) -> str:
        """Return the first alternative; the others are parsed as well."""
        first = self._sequence()
        while self._peek() == "|":
            self._at += 1
            self._sequence()
        return first

    def _sequence(self) -> str:
        pieces: list[str] = []
        length = 0
        while self._peek() not in ("", "|", ")"):
            piece = self._apply_repeat(self._atom())
            length += len(piece)
            if length > MAX_LENGTH:
                raise _UnsupportedPatternError
            pieces.append(piece)
        return "".join(pieces)

    def _apply_repeat(self, piece: str) -> str:
        repeat = _REPEAT.match(self._pattern, self._at)
        if repeat is None or repeat[0] == "{}":
            return piece
        self._at = repeat.end()
        mark = repeat[0][0]
        least = int(repeat[1] or 0) if mark == "{" else int(mark == "+")
        endless = mark in "*+" or (mark == "{" and bool(repeat[2]) and not repeat[3])
        count = max(least, self._more) if endless else least
        if mark == "{" and repeat[3] and self._more:
            count = max(least, min(int(repeat[3]), self._more))
        if count * len(piece) > MAX_LENGTH:
            raise _UnsupportedPatternError
        return piece * count

    def _atom(self) -> str:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        if character in "*+?":
            raise _UnsupportedPatternError
        return {"^": "", "$": "", ".": "x"}.get(character, character)

    def _group(self) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _UnsupportedPatternError
        if self._peek() == "?":
            opening = _GROUP.match(self._pattern, self._at)
            if opening is None:
                raise _UnsupportedPatternError
            self._at = opening.end()
        text = self._alternatives()
        if self._take() != ")":
            raise _UnsupportedPatternError
        self._depth -= 1
        return text

    def _escape(self) -> str:
        character = self._take()
        if character in "AZz":
            return ""
        if character in _CLASSES:
            return _CLASSES[character]
        if character in "xu":
            return self._code(2 if character == "x" else 4)
        if character.isalnum() and character not in _CONTROLS:
            raise _UnsupportedPatternError  # a back-reference, word boundary or Unicode property
        return _CONTROLS.get(character, character)

    def _code(self, digits: int) -> str:
        code = self._pattern[self._at : self._at + digits]
        self._at += digits
        try:
            return chr(int(code, 16))
        except ValueError:
            raise _UnsupportedPatternError from None

    def _class(self) -> str:
        """Return a member of a class (`[a-z_]`), or of its complement."""
        excluded = self._peek() == "^"
        self._at += excluded
        members: list[tuple[str, str]] = []
        kinds: list[str] = []
        while self._peek() != "]" or not (members or kinds):
            kind = self._pattern[self._at + 1 : self._at + 2] if self._peek() == "\\" else ""
            if kind in _MATCHES and kind:
                self._at += 2
                kinds.append(kind)
                continue
            low = self._member()
            high = low
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
            members.append((low, high))
        self._at += 1
        if not excluded:
            return members[0][0] if members else _CLASSES[kinds[0]]
        for candidate in _CANDIDATES:
            if not any(low <= candidate <= high for low, high in members) and not any(
                re.fullmatch(_MATCHES[kind], candidate) for kind in kinds
            ):
                return candidate
        raise _UnsupportedPatternError

    def _member(self) -> str:
        character = self._take()
        return self._escape() if character == "\\" else character
