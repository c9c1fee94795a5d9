"""Is a piece of JSON text that is still arriving a whole object already? Told without reading anything twice."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class ObjectScanner:
    """Follows braces and strings through pieces of text.

    `whole` is True once the text began with `{` and that brace has been closed: nothing can continue it. Whether what
    stands between is valid JSON is another question.
    """

    __slots__ = ("_depth", "_escaped", "_in_string", "_started", "whole")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._started = False
        self.whole = False

    def feed(self, text: str) -> None:
        position = 0
        if not self._started:
            head = text.lstrip()
            if not head:
                return
            self._started = True
            if not head.startswith("{"):
                self._depth = -1  # never whole
        while self._depth >= 0 and not self.whole:
            if self._escaped:
                self._escaped = False
                position += 1
            match = (_INSIDE if self._in_string else _OUTSIDE).search(text, position)
            if match is None:
                return
            position = match.end()
            self._step(match[0])
            if self._escaped and position >= len(text):
                return

    def _step(self, character: str) -> None:
        match character:
            case '"':
                self._in_string = not self._in_string
            case "\\":
                self._escaped = True
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth -= 1
                self.whole = self._depth == 0
