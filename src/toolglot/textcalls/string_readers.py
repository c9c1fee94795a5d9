r"""Read strings of literals as their text arrives, and emit them decoded, in pieces.

A reader leaves text unread only if it cannot interpret it yet: an incomplete escape or end mark. Runs of characters and
complete escapes are read and decoded at once; the rest is handled one by one.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

MAX_DEPTH = 200
"""Maximum nesting of containers; no tool declares values nested that deeply."""

MAX_WORD = 1000
"""Maximum characters of a number, a name or a key."""

MAX_RUN: Final = 16384
"""Maximum characters that are decoded at once."""

TakeText: TypeAlias = Callable[[str], None]
ReadEscape: TypeAlias = Callable[[str, int], tuple[str, int] | None]
"""Read the escape at a backslash. Returns its value and where it ends; None if the text ends too soon."""

escape_json: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
"""Return text as a JSON string."""


class LiteralError(ValueError):
    """The text has no valid literal at `at`."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


class StringReader(Protocol):
    closed: bool

    def read(self, text: str, at: int, take: TakeText) -> int:
        """Read from `at` and return where reading stopped."""
        ...


class EscapeRules(Struct, frozen=True):
    """How a kind of string escapes characters. `whole` is a regular expression for a complete escape after a backslash;
    `read` reads any escape, or reports its error; `decode` decodes what `whole` matched."""

    whole: str
    read: ReadEscape
    decode: Callable[[str], str] | None = None
    """None: escapes are literal text."""


@lru_cache(maxsize=64)
def _run_pattern(mark: str, whole: str) -> re.Pattern[str]:
    """Match characters and complete escapes up to the end mark, or up to a possible beginning of it."""
    quote = mark[0]
    inner = "" if mark == quote else f"|{quote}(?!{quote}{quote}|{quote}?\\Z)"
    return re.compile(rf"(?:[^{quote}\\]++{inner}|\\(?:{whole})|(?!))*+")


_ESCAPE = re.compile(r"\\(u[dD][89abAB]..\\u....|u....|U.{8}|x..|[0-7]{1,3}|\r\n?|[\s\S])")
"""An escape in a run, where each is complete."""


class QuotedString:
    """A string between quotes; the opening quote has been read."""

    __slots__ = ("_escapes", "_mark", "_run", "closed")

    def __init__(self, mark: str, escapes: EscapeRules) -> None:
        self.closed = False
        self._mark = mark
        self._escapes = escapes
        self._run = _run_pattern(mark, escapes.whole)

    def read(self, text: str, at: int, take: TakeText) -> int:
        while at < len(text):
            run = self._run.match(text, at, at + MAX_RUN)
            if run and run.end() > at:
                piece, at = self._decoded(run.group()), run.end()
            elif text[at] == "\\":
                escape = self._escapes.read(text, at)
                if escape is None:
                    break
                piece, at = escape
            elif text.startswith(self._mark, at):
                self.closed = True
                return at + len(self._mark)
            else:
                break
            if piece:
                take(piece)
        return at

    def _decoded(self, run: str) -> str:
        decode = self._escapes.decode
        if decode is None or "\\" not in run:
            return run
        parts = _ESCAPE.split(run)
        parts[1::2] = map(decode, parts[1::2])
        return "".join(parts)


class MarkedString:
    """A string between special marks, without escapes; the opening mark has been read."""

    __slots__ = ("_mark", "closed")

    def __init__(self, mark: str) -> None:
        self.closed = False
        self._mark = mark

    def read(self, text: str, at: int, take: TakeText) -> int:
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


_PYTHON_SHORT = {
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
_JSON_SHORT = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "/": "/", "b": "\b", "f": "\f"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = {letter: re.compile(rf"[0-9a-fA-F]{{0,{count}}}") for letter, count in _DIGITS.items()}
_LOW = re.compile(r"\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_LOW_BEGINS = re.compile(r"(?:\\(?:u(?:d(?:[c-f][0-9a-f]?)?)?)?)?", re.IGNORECASE)
_OCTAL = re.compile(r"[0-7]{1,3}")
_NAME = re.compile(r"(?:\{([^{}'\"\n]{0,100}))?")


def _code_escape(text: str, at: int) -> tuple[str, int] | None:
    """Decode a character given by its code. A surrogate pair is one character; a lone surrogate is invalid."""
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
        raise LiteralError(f"{text[at:end]} is not a character", at)
    return chr(code), end


def _octal_escape(text: str, at: int) -> tuple[str, int] | None:
    digits = _OCTAL.match(text, at + 1)
    assert digits is not None
    if digits.end() == len(text) < at + 4:
        return None
    return chr(int(digits[0], 8)), digits.end()


def _named_escape(text: str, at: int) -> tuple[str, int] | None:
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


def _line_continuation(text: str, at: int) -> tuple[str, int] | None:
    """Read a line continuation, which is an escaped line break."""
    if len(text) < at + 3:
        return None
    return "", at + 3 if text.startswith("\n", at + 2) else at + 2


_LONG_ESCAPES: dict[str, ReadEscape] = {
    **dict.fromkeys("xuU", _code_escape),
    **dict.fromkeys("01234567", _octal_escape),
    "N": _named_escape,
    "\r": _line_continuation,
}


def _python_escape(text: str, at: int) -> tuple[str, int] | None:
    """Decode an escape of a Python string. An unknown one is literal text."""
    letter = text[at + 1 : at + 2]
    if not letter:
        return None
    short = _PYTHON_SHORT.get(letter)
    if short is not None:
        return short, at + 2
    long = _LONG_ESCAPES.get(letter)
    return ("\\" + letter, at + 2) if long is None else long(text, at)


def _raw_escape(text: str, at: int) -> tuple[str, int] | None:
    """Read a backslash in a raw string. It is literal text, and so is the quote after it."""
    return (text[at : at + 2], at + 2) if len(text) > at + 1 else None


def _json_escape(text: str, at: int) -> tuple[str, int] | None:
    letter = text[at + 1 : at + 2]
    if not letter:
        return None
    if letter == "u":
        return _code_escape(text, at)
    short = _JSON_SHORT.get(letter)
    if short is None:
        raise LiteralError(f"\\{letter} is not a JSON escape", at)
    return short, at + 2


def _make_decoder(read: ReadEscape) -> Callable[[str], str]:
    @lru_cache(maxsize=4096)
    def decode(written: str) -> str:
        # After a complete escape, one more character changes nothing.
        found = read(f"\\{written} ", 0)
        assert found is not None
        return found[0]

    return decode


_UNICODE = r"u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
_LONG_UNICODE = r"U(?!0000[dD][89a-fA-F])(?:000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}"
_PYTHON_WHOLE = (
    rf"[^xuUN0-7\r]|x[0-9a-fA-F]{{2}}|{_UNICODE}|{_LONG_UNICODE}|[0-7]{{3}}|[0-7]{{1,2}}+(?!\Z)|\r\n|\r(?!\n|\Z)"
)
PYTHON_ESCAPES: Final = EscapeRules(_PYTHON_WHOLE, _python_escape, _make_decoder(_python_escape))
RAW_ESCAPES: Final = EscapeRules(r"[\s\S]", _raw_escape)
JSON_ESCAPES: Final = EscapeRules(rf'["\\/bfnrt]|{_UNICODE}', _json_escape, _make_decoder(_json_escape))
