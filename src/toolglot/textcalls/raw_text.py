"""The model's own text of a call, kept for error messages about a call that could not be read."""

from __future__ import annotations

from typing import Final

MAX_RAW: Final = 16 * 1024
"""Of longer text only the beginning is kept: a long value is passed on and not buffered."""
MAX_PIECES: Final = 64
"""Number of small pieces that are then joined: each takes more memory than its text."""


class RawText:
    """Collects text that arrives in pieces."""

    __slots__ = ("_parts", "_room")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_RAW

    def clear(self) -> None:
        self._parts.clear()
        self._room = MAX_RAW

    def add(self, text: str, at: int, end: int) -> None:
        """Keep the text from `at` to `end`, as far as there is room."""
        if self._room <= 0 or end <= at:
            return
        end = min(end, at + self._room)
        self._room -= end - at
        self._parts.append(text[at:end])
        if len(self._parts) > MAX_PIECES:
            self._parts = ["".join(self._parts)]

    @property
    def text(self) -> str:
        return "".join(self._parts)
