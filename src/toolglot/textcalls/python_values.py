"""Read Python literals as their text arrives, and write them as JSON.

Only literals are accepted: no names, calls, operators, f-strings, bytes or sets. Beside Python's `True`, `False` and
`None`, JSON's constants are accepted, because models mix them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Literal, TypeAlias

from toolglot.textcalls.events import WorkBudget
from toolglot.textcalls.string_readers import (
    MAX_DEPTH,
    MAX_WORD,
    PYTHON_ESCAPES,
    RAW_ESCAPES,
    LiteralError,
    QuotedString,
    StringReader,
    escape_json,
)

CONSTANTS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BASED = re.compile(r"([+-]?)(0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+))")
_DECIMAL = re.compile(
    r"([+-]?)(0(?:_?0)*|[1-9](?:_?[0-9])*)"  # an integer
    r"|([+-]?)(?:([0-9](?:_?[0-9])*)?\.([0-9](?:_?[0-9])*)?|([0-9](?:_?[0-9])*))([eE][+-]?[0-9](?:_?[0-9])*)?"
)
_WORD = re.compile(r"[+-]?(?:[\w.]|(?<=[eE])[+-])*")
_SPACE = re.compile(r"\s*")
_SIMPLE = re.compile(r"""(?:'[^'\\]*'|"[^"\\]*")(?=[,)\]}])""")
"""A complete string without escapes, and without another string next to it."""

_ESCAPES = {"r": RAW_ESCAPES, "u": PYTHON_ESCAPES}
_PREFIX = re.compile(r"[A-Za-z]{0,2}")

Kind: TypeAlias = Literal["list", "dict", "paren", "splat"]
_CLOSERS = {"list": "]", "dict": "}", "paren": ")", "splat": "}"}
_OPENERS: dict[str, tuple[Kind, str]] = {"[": ("list", "["), "{": ("dict", "{"), "(": ("paren", "")}
_WAIT = -1


def format_unexpected(text: str) -> str:
    return escape_json(text if len(text) <= 40 else text[:40] + "…")


def is_json_number(word: str) -> bool:
    """Return whether this is a JSON number that a JSON reader can hold: integers have no limit."""
    found = JSON_NUMBER.fullmatch(word)
    return found is not None and (word.lstrip("-").isdecimal() or isfinite(float(word)))


def python_number(word: str) -> str | None:
    """Return a Python number as JSON; None if it is not a number. All digits are kept."""
    if JSON_NUMBER.fullmatch(word):
        return word if is_json_number(word) else None
    based = _BASED.fullmatch(word)
    if based is not None:
        return based[1].replace("+", "") + str(int(based[2].replace("_", ""), 0))
    decimal = _DECIMAL.fullmatch(word)
    if decimal is None or not (decimal[2] or decimal[4] or decimal[5] or (decimal[6] and decimal[7])):
        return None
    sign = (decimal[1] or decimal[3] or "").replace("+", "")
    if decimal[2]:
        return sign + (decimal[2].replace("_", "").lstrip("0") or "0")
    whole = (decimal[4] or decimal[6] or "").replace("_", "").lstrip("0") or "0"
    fraction = f".{(decimal[5] or '0').replace('_', '')}" if decimal[6] is None else ""
    written = sign + whole + fraction + (decimal[7] or "").replace("_", "")
    return written if is_json_number(written) else None


class TokenGap:
    """Separators between two tokens: white space and comments."""

    __slots__ = ("_comment",)

    def __init__(self) -> None:
        self._comment = False

    def skip(self, text: str, at: int) -> int:
        while True:
            if self._comment:
                end = text.find("\n", at)
                if end < 0:
                    return len(text)
                self._comment, at = False, end
            if text[at : at + 1].isspace():
                space = _SPACE.match(text, at)
                at = space.end() if space else at
            if not text.startswith("#", at):
                return at
            self._comment = True


class LiteralFrame:
    """A container that is being read. `held` is the index of its missing bracket while a parenthesis may be a tuple or
    a group."""

    __slots__ = ("count", "held", "keys", "kind")

    def __init__(self, kind: Kind, keys: set[str], count: int = 0) -> None:
        self.kind = kind
        self.keys = keys
        self.count = count
        self.held = -1


class PythonValueReader:
    """Reads one literal and appends its JSON to `parts`. With a `splat` frame it reads the rest of a `**{…}` and
    appends only its entries."""

    __slots__ = ("_gap", "_held", "_key", "_mode", "_parts", "_stack", "_string", "_unsure", "_work", "done")

    def __init__(self, parts: list[str], gap: TokenGap, work: WorkBudget, splat: LiteralFrame | None = None) -> None:
        self.done = False
        self._work = work
        self._parts = parts
        self._gap = gap
        self._stack = [] if splat is None else [splat]
        self._string: StringReader | None = None
        self._key: list[str] | None = None
        self._held: list[str] = []
        self._unsure = 0
        self._mode: Callable[[str, int], int] = self._value if splat is None else self._item

    def read(self, text: str, at: int) -> int:
        while not self.done:
            if self._string is not None:
                at = self._string.read(text, at, self._take)
                if not self._string.closed:
                    break
                self._string = None
            at = self._gap.skip(text, at)
            if at == len(text):
                break
            after = self._mode(text, at)
            if after == _WAIT:
                break
            if not self._work.take_value():
                raise LiteralError("there are too many values in one answer", at)
            at = after
        return at

    def _put(self, fragment: str) -> None:
        (self._held if self._unsure else self._parts).append(fragment)

    def _take(self, piece: str) -> None:
        if self._key is None:
            self._put(escape_json(piece)[1:-1])
        else:
            self._key.append(piece)

    def _complete(self) -> None:
        self.done = not self._stack
        self._mode = self._after

    def _value(self, text: str, at: int) -> int:
        first = text[at]
        if first in _OPENERS:
            return self._open(text, at)
        if first in "\"'":
            simple = _SIMPLE.match(text, at)
            if simple is None:
                return self._quote(text, at, "u")
            self._put(escape_json(simple[0][1:-1]))
            self._complete()
            return simple.end()
        word, end = _read_word(text, at)
        if end == len(text):
            return _WAIT
        if text[end : end + 1] in ('"', "'"):
            return self._quote(text, end, word.lower())
        json = CONSTANTS.get(word) or python_number(word)
        if json is None:
            raise LiteralError(f"{format_unexpected(word or text[at])} is not a literal", at)
        self._put(json)
        self._complete()
        return end

    def _open(self, text: str, at: int) -> int:
        if len(self._stack) >= MAX_DEPTH:
            raise LiteralError(f"the value is nested more than {MAX_DEPTH} levels deep", at)
        kind, bracket = _OPENERS[text[at]]
        frame = LiteralFrame(kind, set())
        if kind == "paren":
            self._unsure += 1
            frame.held = len(self._held)
        self._put(bracket)
        self._stack.append(frame)
        self._mode = self._item
        return at + 1

    def _quote(self, text: str, at: int, prefix: str) -> int:
        escapes = _ESCAPES.get(prefix)
        if escapes is None:
            raise LiteralError(f"a string with the prefix {prefix} is not a literal", at)
        quote = text[at]
        mark = quote * 3
        if not text.startswith(mark, at):
            if len(text) < at + 3 and mark.startswith(text[at:]):
                return _WAIT
            mark = quote
        if self._mode == self._value:
            self._put('"')
        self._mode = self._after_string
        self._string = QuotedString(mark, escapes)
        return at + len(mark)

    def _after_string(self, text: str, at: int) -> int:
        """Continue after a string. Adjacent strings are one string."""
        prefix = _PREFIX.match(text, at)
        end = prefix.end() if prefix else at
        if end == len(text):
            return _WAIT
        if text[end : end + 1] in ('"', "'"):
            return self._quote(text, end, text[at:end].lower() or "u")
        if self._key is None:
            self._put('"')
            self._complete()
        else:
            self._name_entry("".join(self._key), at)
        return at

    def _name_entry(self, key: str, at: int) -> None:
        frame = self._stack[-1]
        if key in frame.keys:
            raise LiteralError(f"the key {format_unexpected(key)} occurs twice", at)
        frame.keys.add(key)
        self._separate(frame)
        self._put(escape_json(key) + ": ")
        self._key = None
        self._mode = self._colon

    def _separate(self, frame: LiteralFrame) -> None:
        if frame.count:
            self._put(", ")
        frame.count += 1

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            raise LiteralError(f"{format_unexpected(text[at])} is where a colon should be", at)
        self._mode = self._value
        return at + 1

    def _item(self, text: str, at: int) -> int:
        """Read the next entry of a container, or its end."""
        frame = self._stack[-1]
        if text[at] == _CLOSERS[frame.kind]:
            return self._close(at)
        if frame.kind in ("dict", "splat"):
            return self._entry(text, at)
        self._separate(frame)
        self._mode = self._value
        return at

    def _entry(self, text: str, at: int) -> int:
        """Read a key: a string, or an integer, which JSON can only write as a string."""
        if text[at] in "\"'":
            word, end = "u", at
        else:
            word, end = _read_word(text, at)
            if end == len(text):
                return _WAIT
        if text[end : end + 1] in ('"', "'"):
            after = self._quote(text, end, word.lower())
            if after != _WAIT:
                self._key = []
            return after
        if not re.fullmatch(r"-?(?:0|[1-9][0-9]*)", word):
            raise LiteralError(f"{format_unexpected(word or text[at])} is not a key", at)
        self._name_entry(word, at)
        return end

    def _after(self, text: str, at: int) -> int:
        frame = self._stack[-1]
        if text[at] == _CLOSERS[frame.kind]:
            return self._close(at)
        if text[at] != ",":
            raise LiteralError(
                f"{format_unexpected(text[at])} is where a comma or {_CLOSERS[frame.kind]} should be", at
            )
        if frame.held >= 0:
            self._decide(frame, "[")
        self._mode = self._item
        return at + 1

    def _close(self, at: int) -> int:
        frame = self._stack.pop()
        grouped = frame.held >= 0 and frame.count == 1
        if frame.held >= 0:
            self._decide(frame, "" if grouped else "[")
        if not grouped and frame.kind != "splat":
            self._put("}" if frame.kind == "dict" else "]")
        self._complete()
        return at + 1

    def _decide(self, frame: LiteralFrame, bracket: str) -> None:
        """Decide whether the parenthesis is a tuple or a group."""
        self._held[frame.held] = bracket
        frame.held = -1
        self._unsure -= 1
        if not self._unsure:
            self._parts += self._held
            self._held.clear()


def _read_word(text: str, at: int) -> tuple[str, int]:
    found = _WORD.match(text, at)
    end = found.end() if found else at
    if end - at > MAX_WORD:
        raise LiteralError(f"a word has more than {MAX_WORD} characters", at)
    return text[at:end], end
