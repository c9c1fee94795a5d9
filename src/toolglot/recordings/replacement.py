"""Replace matches in a text. JSON stays valid: escapes are not split, and quotes and numbers are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

REDACTED = "[redacted]"

_WORD_PATTERN = re.compile(r"(?:\\{1,8}u[0-9A-Fa-f]{4}|[^\"{}\[\],:\s\\])+|\\.")
"""The parts to redact of a match that contains a quote, and so may span several strings of a document."""
NUMBER_PATTERN = re.compile(r"-?[0-9][0-9.eE+-]*")
_NUMBERS_PATTERN = re.compile(r"(?:[\s,:\[\]{}]++|-?[0-9][0-9.eE+-]*+|(?!))++")
"""Several numbers and the JSON between them, which may be part of a document inside a string."""
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
LITERALS = ("true", "false", "null")
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_SLASHES = re.compile(r"\\+")
_ESCAPED = re.compile(r"u[0-9A-Fa-f]{1,4}|.", re.DOTALL)


class FoundSecret(NamedTuple):
    start: int
    end: int
    context: int
    """Start of the context that identifies this as a secret; never after `start`."""
    instead: str | None = None
    """The replacement, if not `[redacted]`."""
    is_number: bool = False
    """True if the replacement consists of nines."""


class ReplacedPiece(NamedTuple):
    """A piece of a text with replacements."""

    text: str
    is_number: bool = False
    """True if it replaces one or several numbers, and consists of nines."""


def merge_found(found: list[FoundSecret]) -> list[FoundSecret]:
    found.sort(key=lambda each: (each.start, -each.end))
    whole = [found[0]]
    for each in found[1:]:
        last = whole[-1]
        if each.start >= last.end:
            whole.append(each)
        elif each.end > last.end:
            whole[-1] = FoundSecret(last.start, each.end, last.context)
    return whole


def replace_found(text: str, found: Iterable[FoundSecret], instead: str | None) -> str:
    """Return the text with matches replaced by `instead`; None keeps the length."""
    return "".join(piece.text for piece in replace_in_pieces(text, found, instead))


def replace_in_pieces(text: str, found: Iterable[FoundSecret], instead: str | None) -> Iterator[ReplacedPiece]:
    """Replace secrets, and yield the text in pieces: unchanged ones and replacements."""
    done = 0
    for each in found:
        if each.end <= done:
            continue
        start, end = (
            (each.start, each.end) if instead is None or each.instead else _widen_to_escapes(text, each.start, each.end)
        )
        start = max(start, done)
        quoted = '"' in text[each.start : each.end]
        if start >= end:
            continue
        yield ReplacedPiece(text[done:start])
        if each.instead and (instead is not None or len(each.instead) == end - start):
            yield ReplacedPiece(each.instead, each.is_number)
        elif instead is None:
            yield ReplacedPiece(filler(end - start))
        else:
            yield from _replace_words(text[start:end]) if quoted else (_replace_word(text[start:end]),)
        done = end
    yield ReplacedPiece(text[done:])


def _replace_words(secret: str) -> Iterator[ReplacedPiece]:
    """Yield the replacement of each word; the text between them stays."""
    done = 0
    for found in _WORD_PATTERN.finditer(secret):
        yield ReplacedPiece(secret[done : found.start()])
        yield _replace_word(found[0], kept="\\")
        done = found.end()
    yield ReplacedPiece(secret[done:])


def _replace_word(word: str, kept: str = "") -> ReplacedPiece:
    """`kept` are the first characters of two-character escapes that are kept."""
    if word in LITERALS or (kept and len(word) == 2 and word[0] == kept):
        return ReplacedPiece(word)
    is_number = _NUMBERS_PATTERN.fullmatch(word) is not None and any(map(str.isdigit, word))
    return ReplacedPiece(number_of_nines(word), is_number=True) if is_number else ReplacedPiece(REDACTED)


def number_of_nines(number: str) -> str:
    """Return a number of the same length that reveals nothing and overflows nowhere."""
    power = _EXPONENT.search(number)
    digits, exponent = (number, "") if power is None else (number[: power.start()], number[power.start() :])
    return re.sub("[0-9]", "9", digits) + re.sub("[0-9]", "0", exponent)


def _widen_to_escapes(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend the range to whole JSON escapes: a partial escape would form a wrong one with the text after it."""
    if (inside := _split_escape_start(text, end)) is not None:
        slashes = _SLASHES.match(text, inside)
        assert slashes is not None
        end = max(end, slashes.end())
        if len(slashes[0]) % 2 and (rest := _ESCAPED.match(text, slashes.end())) is not None:
            end = max(end, rest.end())
    before = _split_escape_start(text, start)
    return start if before is None else before, end


def _split_escape_start(text: str, place: int) -> int | None:
    """Return the start of the backslashes directly before this position, which may include part of an escape."""
    half = _HALF_ESCAPE.search(text, max(0, place - 5), place)
    if half is None:
        return None
    begins = half.start()
    while begins and text[begins - 1] == "\\":
        begins -= 1
    return begins


def filler(length: int) -> str:
    """Return a replacement of the same length."""
    return REDACTED[:length] + "*" * (length - len(REDACTED))
