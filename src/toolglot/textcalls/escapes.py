"""What was escaped in a request, put back into its answer.

Marks in the texts of users and tools are broken with a dot before the model sees them. A model that copies such a text
copies the dot, and a client would find it in its files. So a request's `Escapes` remember which marks were broken, and
`Undoing` takes the dots out of an answer's text, reasoning and arguments: behind the reader, so that what is whole
again can no longer open a call.

A dot is ours if the mark that it broke stands around it: the character before the dot, and the rest of the mark behind
it. Only from the dot on is anything held back, and only until the rest of the mark is there or cannot come any more.
"""

from __future__ import annotations

import re
from typing import Final

DOT: Final = "·"

_DOTS: Final = re.compile(f"(?P<dots>{DOT}+)")
_JSON_DOTS: Final = re.compile(rf"(?P<dots>(?:{DOT}|\\u00[bB]7)+)|\\(?:u[0-9a-fA-F]{{4}}|.)", re.DOTALL)
"""Dots in JSON, also as escapes; and all other escapes, since a backslash may belong to the one before it."""
_UNIT: Final = re.compile(r"\\u[0-9a-fA-F]{4}|\\[^u]|[^\\]", re.DOTALL)
"""One character of a JSON string."""
_ESCAPE: Final = 6
"""The length of a character as an escape."""
_SHORT: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
MAX_LENGTH: Final = 300
"""A mark that is longer has white space in it that nobody copies."""
MAX_MARKS: Final = 1000
"""Nobody writes so many different ones; a request that does must not slow its answer down."""


class Escapes:
    """The marks that were broken: their first characters, and for each the rests that followed it. `count` counts every
    one, also those that are known already."""

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
        """How the marks go on that begin with this character."""
        return self._rests.get(first, ())


class Undoing:
    """Takes the dots out of one text, or out of the JSON text of one call's arguments. It may be cut anywhere."""

    __slots__ = ("_before", "_escapes", "_held", "_is_json")

    def __init__(self, escapes: Escapes, *, is_json: bool = False) -> None:
        self._escapes = escapes
        self._is_json = is_json
        self._held = ""
        self._before = ""  # the character before what is held back, or before what comes next

    def feed(self, text: str) -> str:
        """What can be passed on now."""
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
                if found.end() - start == 2 and data[start + 1] == "u" and len(data) - start < _ESCAPE:
                    return self._hold(data, parts, at, start, end, last)
                end, last = found.end(), _decoded(found.group())
                continue
            first = last if end == start else data[start - 1]
            long = found.end() - start > MAX_LENGTH  # nobody writes so many, and they are not waited for
            ours = False if long else self._is_ours(first, data, found.end())
            if ours is None:
                return self._hold(data, parts, at, start, end, last)
            if ours:
                parts.append(data[at:start])
                at = start + (1 if data[start] == DOT else _ESCAPE)
            end, last = found.end(), DOT
        if self._is_json and end < len(data) and data.endswith("\\"):
            return self._hold(data, parts, at, len(data) - 1, end, last)
        self._before = last if end == len(data) else data[-1]
        parts.append(data[at:])
        return "".join(parts)

    def finish(self) -> str:
        """What was held back: nothing follows it."""
        held, self._held = self._held, ""
        return held

    def _hold(self, data: str, parts: list[str], at: int, start: int, end: int, last: str) -> str:
        """Keep what begins at `start`. Up to `end` the characters are known, of which `last` is the last one."""
        self._before = last if end == start else data[start - 1]
        self._held = data[start:]
        return "".join((*parts, data[at:start]))

    def _is_ours(self, first: str, data: str, at: int) -> bool | None:
        """Do dots that end at `at` stand in a mark that was broken? None where only what follows can tell."""
        rests = self._escapes.rests(first)
        if not rests:
            return False
        ahead, more = self._ahead(data, at)
        if ahead.startswith(rests):
            return True
        return None if more and any(rest.startswith(ahead) for rest in rests) else False

    def _ahead(self, data: str, at: int) -> tuple[str, bool]:
        """The characters that follow, as many as may matter, and whether more of them may come."""
        longest = self._escapes.longest
        if not self._is_json:
            return data[at : at + longest], len(data) < at + longest
        ahead: list[str] = []
        while len(ahead) < longest:
            unit = _UNIT.match(data, at)
            if unit is None:
                return "".join(ahead), len(data) - at < _ESCAPE
            ahead.append(_decoded(unit.group()))
            at = unit.end()
        return "".join(ahead), False


def _decoded(unit: str) -> str:
    """One character of a JSON string as what it stands for."""
    if not unit.startswith("\\"):
        return unit
    if len(unit) == _ESCAPE:
        return chr(int(unit[2:], 16))
    return _SHORT.get(unit[1], unit[1])
