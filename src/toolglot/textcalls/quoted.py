r"""Strings of literals, read as their text arrives and handed on decoded, in pieces.

A reader leaves unread only what it cannot judge yet: an escape or an end mark of which the rest is missing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Protocol, TypeAlias

MAX_DEPTH = 200
"""Containers within containers; nothing that a tool declares is nested so deeply."""

MAX_WORD = 1000
"""Characters of a number, a name or a key."""

Take: TypeAlias = Callable[[str], None]
Escape: TypeAlias = Callable[[str, int], tuple[str, int] | None]
"""Read the escape at a backslash: what it stands for and where it ends, None if the text ends too soon to tell."""

escaped: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
"""Text as a JSON string."""


class LiteralError(ValueError):
    """What stands at `at` is no literal."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


class StringReader(Protocol):
    closed: bool

    def read(self, text: str, at: int, take: Take) -> int:
        """Read on from `at`; where reading stopped."""
        ...


_STOPS = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}


class Quoted:
    """A string between quotes, of which the opening one has been read."""

    __slots__ = ("_escape", "_mark", "_quote", "_stops", "closed")

    def __init__(self, mark: str, escape: Escape) -> None:
        self.closed = False
        self._mark = mark
        self._quote = mark[0]
        self._stops = _STOPS[mark[0]]
        self._escape = escape

    def read(self, text: str, at: int, take: Take) -> int:
        while at < len(text):
            stop = self._stops.search(text, at)
            end = len(text) if stop is None else stop.start()
            if end > at:
                take(text[at:end])
                at = end
            if stop is None:
                break
            if text[at] == "\\":
                escape = self._escape(text, at)
                if escape is None:
                    break
                piece, at = escape
                if piece:
                    take(piece)
            elif text.startswith(self._mark, at):
                self.closed = True
                return at + len(self._mark)
            elif len(text) - at < len(self._mark) and self._mark.startswith(text[at:]):
                break
            else:
                take(self._quote)
                at += 1
        return at


class Marked:
    """A string between marks of its own, without any escapes; the opening mark has been read."""

    __slots__ = ("_mark", "closed")

    def __init__(self, mark: str) -> None:
        self.closed = False
        self._mark = mark

    def read(self, text: str, at: int, take: Take) -> int:
        mark = self._mark
        end = text.find(mark, at)
        self.closed = end >= 0
        if not self.closed:
            end = len(text)
            held = text.find(mark[0], max(at, end - len(mark) + 1))
            while held >= 0 and not mark.startswith(text[held:]):
                held = text.find(mark[0], held + 1)
            if held >= 0:
                end = held
        if end > at:
            take(text[at:end])
        return end + len(mark) if self.closed else end


_PYTHON_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\n": "",
}
_JSON_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "/": "/", "b": "\b", "f": "\f"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = {letter: re.compile(rf"[0-9a-fA-F]{{0,{count}}}") for letter, count in _DIGITS.items()}
_LOW = re.compile(r"\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_LOW_BEGINS = re.compile(r"(?:\\(?:u(?:d(?:[c-f][0-9a-f]?)?)?)?)?", re.IGNORECASE)
_OCTAL = re.compile(r"[0-7]{1,3}")
_NAME = re.compile(r"(?:\{([^{}'\"\n]{0,100}))?")


def _coded(text: str, at: int) -> tuple[str, int] | None:
    """A character given by its code. Two halves of a surrogate pair are one character; a half alone is none."""
    letter = text[at + 1]
    end = at + 2 + _DIGITS[letter]
    digits = _HEX[letter].match(text, at + 2)
    assert digits is not None
    if digits.end() < end:
        if digits.end() == len(text):
            return None
        raise LiteralError(f"\\{letter} is not followed by {_DIGITS[letter]} hexadecimal digits", at)
    code = int(digits[0], 16)
    if 0xD800 <= code < 0xDC00 and letter == "u":
        low = _LOW.match(text, end)
        if low is not None:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()
        if len(text) < end + 6 and _LOW_BEGINS.fullmatch(text, end):
            return None
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise LiteralError(f"{text[at:end]} is no character", at)
    return chr(code), end


def _octal(text: str, at: int) -> tuple[str, int] | None:
    digits = _OCTAL.match(text, at + 1)
    assert digits is not None
    if digits.end() == len(text) < at + 4:
        return None
    return chr(int(digits[0], 8)), digits.end()


def _named(text: str, at: int) -> tuple[str, int] | None:
    name = _NAME.match(text, at + 2)
    assert name is not None
    if name.end() == len(text):
        return None
    if not name[1] or text[name.end()] != "}":
        raise LiteralError("\\N is not followed by the name of a character in braces", at)
    try:
        return unicodedata.lookup(name[1]), name.end() + 1
    except KeyError:
        raise LiteralError(f"no character has the name {name[1]}", at) from None


def _line_end(text: str, at: int) -> tuple[str, int] | None:
    """A line that goes on in the next one."""
    if len(text) < at + 3:
        return None
    return "", at + 3 if text.startswith("\n", at + 2) else at + 2


_LONG_ESCAPES: dict[str, Escape] = {
    **dict.fromkeys("xuU", _coded),
    **dict.fromkeys("01234567", _octal),
    "N": _named,
    "\r": _line_end,
}


def python_escape(text: str, at: int) -> tuple[str, int] | None:
    """An escape of a Python string. One that Python does not know stands for itself."""
    letter = text[at + 1 : at + 2]
    if not letter:
        return None
    short = _PYTHON_ESCAPES.get(letter)
    if short is not None:
        return short, at + 2
    long = _LONG_ESCAPES.get(letter)
    return ("\\" + letter, at + 2) if long is None else long(text, at)


def raw_escape(text: str, at: int) -> tuple[str, int] | None:
    """In a raw string a backslash stands for itself, and so does the quote behind it."""
    return (text[at : at + 2], at + 2) if len(text) > at + 1 else None


def json_escape(text: str, at: int) -> tuple[str, int] | None:
    letter = text[at + 1 : at + 2]
    if not letter:
        return None
    if letter == "u":
        return _coded(text, at)
    short = _JSON_ESCAPES.get(letter)
    if short is None:
        raise LiteralError(f"\\{letter} is no escape of JSON", at)
    return short, at + 2
