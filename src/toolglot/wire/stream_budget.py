"""Limits the text that a stream decoder buffers and the number of its blocks."""

from __future__ import annotations

from toolglot.errors import DecodeError

MAX_HELD_CHARACTERS = 32 * 1024 * 1024
MAX_BLOCKS = 10_000


class StreamBudget:
    """Counts buffered characters and blocks. Raises `DecodeError` if either exceeds its limit."""

    __slots__ = ("_blocks", "_held")

    def __init__(self) -> None:
        self._held = 0
        self._blocks = 0

    def hold(self, characters: int) -> None:
        self._held += characters
        if self._held > MAX_HELD_CHARACTERS:
            raise DecodeError("$", f"more than {MAX_HELD_CHARACTERS} characters cannot be held back")

    def release(self, characters: int) -> None:
        self._held -= characters

    def add_block(self) -> None:
        self._blocks += 1
        if self._blocks > MAX_BLOCKS:
            raise DecodeError("$", f"a response of more than {MAX_BLOCKS} blocks")
