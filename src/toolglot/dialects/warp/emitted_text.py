"""The text of one message that the decoder has emitted, in pieces."""

from __future__ import annotations

from collections.abc import Iterable


class EmittedText:
    """Keeps the pieces apart, so that a comparison costs no more than the compared text."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            if piece:
                self._pieces.append(piece)
                self._length += len(piece)

    def clear(self) -> None:
        """Forget all text: the message has been rewritten."""
        self._pieces.clear()
        self._length = 0

    def remainder_of(self, text: str) -> str | None:
        """The part of this text after the emitted text. None if it does not begin with the emitted text."""
        if len(text) < self._length:
            return None
        at = 0
        for piece in self._pieces:
            if not text.startswith(piece, at):
                return None
            at += len(piece)
        return text[at:]
