"""All that was said of one message, in the pieces in which it was."""

from __future__ import annotations

from collections.abc import Iterable


class EmittedText:
    """Comparing costs no more than the text that is compared, however much has been said."""

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
        """It has been written anew."""
        self._pieces.clear()
        self._length = 0

    def remainder_of(self, text: str) -> str | None:
        """What this text has behind what was said; None where it does not begin with that."""
        if len(text) < self._length:
            return None
        at = 0
        for piece in self._pieces:
            if not text.startswith(piece, at):
                return None
            at += len(piece)
        return text[at:]
