"""Restore marks in an answer that were escaped in its request.

Marks in the texts of users and tools are broken with a dot before the model sees them. A model that copies such a text
copies the dot, and a client would find it in its files. So a request's `Escapes` remember which marks were broken, and
`Unescaper` removes the dots from an answer's text, reasoning and arguments. It runs after the parser, so that a
restored mark can no longer open a call.

A dot was inserted by toolglot if the broken mark surrounds it: the mark's first character before the dot, and the rest
of it after the dot. Text is held back only from a dot on, and only until the rest of the mark has arrived or can no
longer arrive.
"""

from __future__ import annotations

import re
from typing import Final

DOT: Final = "·"

_DOTS: Final = re.compile(f"(?P<dots>{DOT}+)")
_JSON_DOTS: Final = re.compile(rf"(?P<dots>(?:{DOT}|\\u00[bB]7)+)|\\(?:u[0-9a-fA-F]{{4}}|.)", re.DOTALL)
"""Dots in JSON, also as escapes; and all other escapes, because a backslash may belong to the one before it."""
_JSON_CHARACTER: Final = re.compile(r"\\u[0-9a-fA-F]{4}|\\[^u]|[^\\]", re.DOTALL)
"""One character of a JSON string."""
_ESCAPE_LENGTH: Final = 6
"""Length of a character as an escape."""
_SHORT_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
MAX_LENGTH: Final = 300
"""A longer mark contains white space that is never copied."""
MAX_MARKS: Final = 1000
"""No real request has this many different marks; one that does must not slow down its answer."""


class Escapes:
    """The broken marks: their first characters, and for each the remainders that followed it. `count` counts every
    occurrence, also of known marks."""

    __slots__ = ("_marks", "_rests", "count", "longest")

    def __init__(self) -> None:
        self._marks: set[tuple[str, str]] = set()
        self._rests: dict[str, tuple[str, ...]] = {}
        self.count = 0
        self.longest = 0

    def __bool__(self) -> bool:
        return bool(self._rests)

    def add(self, first: str, rest: str) -> None:
        self.count += 1
        if (first, rest) in self._marks or len(rest) > MAX_LENGTH or len(self._marks) >= MAX_MARKS:
            return
        self._marks.add((first, rest))
        self._rests[first] = (*self._rests.get(first, ()), rest)
        self.longest = max(self.longest, len(rest))

    def rests(self, first: str) -> tuple[str, ...]:
        """Return the remainders of the marks that begin with this character."""
        return self._rests.get(first, ())


class Unescaper:
    """Removes the dots from one text, or from the JSON text of one call's arguments. The text may be split anywhere."""

    __slots__ = ("_before", "_escapes", "_held", "_is_json")

    def __init__(self, escapes: Escapes, *, is_json: bool = False) -> None:
        self._escapes = escapes
        self._is_json = is_json
        self._held = ""
        self._before = ""  # the character before what is held back, or before what comes next

    def feed(self, text: str) -> str:
        """Return the text that can be passed on now."""
        data, self._held = self._held + text, ""
        if DOT not in data and not (self._is_json and "\\" in data):
            self._before = data[-1:] or self._before
            return data
        parts: list[str] = []
        at = end = 0
        last = self._before
        for found in (_JSON_DOTS if self._is_json else _DOTS).finditer(data):
            start = found.start()
            if found["dots"] is None:
                if found.end() - start == 2 and data[start + 1] == "u" and len(data) - start < _ESCAPE_LENGTH:
                    return self._hold(data, parts, at, start, end, last)
                end, last = found.end(), _decode_character(found.group())
                continue
            first = last if end == start else data[start - 1]
            long = found.end() - start > MAX_LENGTH  # no real text has this many, and they are not awaited
            ours = False if long else self._is_ours(first, data, found.end())
            if ours is None:
                return self._hold(data, parts, at, start, end, last)
            if ours:
                parts.append(data[at:start])
                at = start + (1 if data[start] == DOT else _ESCAPE_LENGTH)
            end, last = found.end(), DOT
        if self._is_json and end < len(data) and data.endswith("\\"):
            return self._hold(data, parts, at, len(data) - 1, end, last)
        self._before = last if end == len(data) else data[-1]
        parts.append(data[at:])
        return "".join(parts)

    def finish(self) -> str:
        """Return the held-back text at the end of the input."""
        held, self._held = self._held, ""
        return held

    def _hold(self, data: str, parts: list[str], at: int, start: int, end: int, last: str) -> str:
        """Hold back the text that begins at `start`. Up to `end` the characters are known; `last` is the last one."""
        self._before = last if end == start else data[start - 1]
        self._held = data[start:]
        return "".join((*parts, data[at:start]))

    def _is_ours(self, first: str, data: str, at: int) -> bool | None:
        """Return whether dots that end at `at` are inside a broken mark; None if more text is needed."""
        rests = self._escapes.rests(first)
        if not rests:
            return False
        ahead, more = self._ahead(data, at)
        if ahead.startswith(rests):
            return True
        return None if more and any(rest.startswith(ahead) for rest in rests) else False

    def _ahead(self, data: str, at: int) -> tuple[str, bool]:
        """Return the characters that follow, as many as may matter, and whether more may come."""
        longest = self._escapes.longest
        if not self._is_json:
            return data[at : at + longest], len(data) < at + longest
        ahead: list[str] = []
        while len(ahead) < longest:
            unit = _JSON_CHARACTER.match(data, at)
            if unit is None:
                return "".join(ahead), len(data) - at < _ESCAPE_LENGTH
            ahead.append(_decode_character(unit.group()))
            at = unit.end()
        return "".join(ahead), False


def _decode_character(unit: str) -> str:
    """Decode one character of a JSON string."""
    if not unit.startswith("\\"):
        return unit
    if len(unit) == _ESCAPE_LENGTH:
        return chr(int(unit[2:], 16))
    return _SHORT_ESCAPES.get(unit[1], unit[1])
