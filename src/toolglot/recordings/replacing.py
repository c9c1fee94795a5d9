"""What takes the place of what was found in a text. JSON stays JSON: escapes are not torn, quotes and numbers stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

REDACTED = "[redacted]"

_WORDS = re.compile(r"(?:\\{1,8}u[0-9A-Fa-f]{4}|[^\"{}\[\],:\s\\])+|\\.")
"""What of a match is redacted that has a quote in it: it may go over more than one string of a document."""
NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_NUMBERS = re.compile(r"(?:[\s,:\[\]{}]++|-?[0-9][0-9.eE+-]*+)++")
"""Several of them, with what stands between them in JSON: this may be a part of a document that a string holds."""
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
LITERALS = ("true", "false", "null")
_HALF = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_SLASHES = re.compile(r"\\+")
_ESCAPED = re.compile(r"u[0-9A-Fa-f]{1,4}|.", re.DOTALL)


class Found(NamedTuple):
    start: int
    end: int
    context: int
    """Where that begins which tells that this is a secret; never behind `start`."""
    instead: str | None = None
    """What takes its place, when that is not `[redacted]`."""
    is_number: bool = False
    """That is one of nines."""


class Piece(NamedTuple):
    """Of a text in which something was replaced."""

    text: str
    is_number: bool = False
    """It stands for a number, or several, and is one of nines."""


def merged(found: list[Found]) -> list[Found]:
    found.sort(key=lambda each: (each.start, -each.end))
    whole = [found[0]]
    for each in found[1:]:
        last = whole[-1]
        if each.start >= last.end:
            whole.append(each)
        elif each.end > last.end:
            whole[-1] = Found(last.start, each.end, last.context)
    return whole


def replaced(text: str, found: Iterable[Found], instead: str | None) -> str:
    """The text with this in the place of what was found; None keeps its length."""
    return "".join(piece.text for piece in pieces(text, found, instead))


def pieces(text: str, found: Iterable[Found], instead: str | None) -> Iterator[Piece]:
    """The same in pieces: what stays, and what takes the place of something."""
    done = 0
    for each in found:
        if each.end <= done:
            continue
        start, end = (each.start, each.end) if instead is None or each.instead else _untorn(text, each.start, each.end)
        start = max(start, done)
        quoted = '"' in text[each.start : each.end]
        if start >= end:
            continue
        yield Piece(text[done:start])
        if each.instead and (instead is not None or len(each.instead) == end - start):
            yield Piece(each.instead, each.is_number)
        elif instead is None:
            yield Piece(filler(end - start))
        else:
            yield from _words(text[start:end]) if quoted else (_word(text[start:end]),)
        done = end
    yield Piece(text[done:])


def _words(secret: str) -> Iterator[Piece]:
    """What takes the place of each word; what stands between them stays."""
    done = 0
    for found in _WORDS.finditer(secret):
        yield Piece(secret[done : found.start()])
        yield _word(found[0], kept="\\")
        done = found.end()
    yield Piece(secret[done:])


def _word(word: str, kept: str = "") -> Piece:
    """`kept` is what escapes of two characters begin with that stay."""
    if word in LITERALS or (kept and len(word) == 2 and word[0] == kept):
        return Piece(word)
    is_number = _NUMBERS.fullmatch(word) is not None and any(map(str.isdigit, word))
    return Piece(nines(word), is_number=True) if is_number else Piece(REDACTED)


def nines(number: str) -> str:
    """A number of the same length that tells nothing, and is not too large for anybody."""
    power = _EXPONENT.search(number)
    digits, exponent = (number, "") if power is None else (number[: power.start()], number[power.start() :])
    return re.sub("[0-9]", "9", digits) + re.sub("[0-9]", "0", exponent)


def _untorn(text: str, start: int, end: int) -> tuple[int, int]:
    """With all of a JSON escape that is torn at either side: its other half would make a wrong one with what comes."""
    if (inside := _torn(text, end)) is not None:
        slashes = _SLASHES.match(text, inside)
        assert slashes is not None
        end = max(end, slashes.end())
        if len(slashes[0]) % 2 and (rest := _ESCAPED.match(text, slashes.end())) is not None:
            end = max(end, rest.end())
    before = _torn(text, start)
    return start if before is None else before, end


def _torn(text: str, place: int) -> int | None:
    """Where the backslashes begin that what stands before this place ends with, maybe with a part of an escape."""
    half = _HALF.search(text, max(0, place - 5), place)
    if half is None:
        return None
    begins = half.start()
    while begins and text[begins - 1] == "\\":
        begins -= 1
    return begins


def filler(length: int) -> str:
    """What takes the place of so many characters where their number counts."""
    return REDACTED[:length] + "*" * (length - len(REDACTED))
