"""Detects the end of a JSON object in text that arrives in pieces, without reading anything twice."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class ObjectScanner:
    """Tracks braces and strings through pieces of text.

    `whole` is True once the text began with `{` and that brace has been closed: nothing can continue it. The text may
    still be invalid JSON.
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
