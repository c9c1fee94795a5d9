"""What the model wrote, kept for those who are told of a call that could not be read."""

from __future__ import annotations

from typing import Final

MAX_RAW: Final = 256 * 1024
"""Of more than this, the beginning is told."""


class Raw:
    """Collects text that comes in pieces."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        room = MAX_RAW - self._size
        if text and room > 0:
            self._parts.append(text[:room])
            self._size += min(len(text), room)

    def clear(self) -> None:
        self._parts.clear()
        self._size = 0

    @property
    def text(self) -> str:
        return "".join(self._parts)
