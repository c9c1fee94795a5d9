"""Marks that may close a call, directly after it."""

from __future__ import annotations

from typing import Final

from toolglot.textcalls.grammar import CallSyntax

MAX_EXTRA: Final = 3
"""Number of surplus brackets that are skipped after a call."""

MAX_SPACE: Final = 1000
"""White space after a call to wait through until something follows."""


class ClosingMarks:
    """The closing marks of the last call. Those that were missing are dropped if they come later."""

    __slots__ = ("_brackets", "_unclosed", "marks")

    def __init__(self) -> None:
        self.marks: tuple[str, ...] = ()
        self._unclosed: set[str] = set()
        self._brackets = 0

    def begin(self, call: CallSyntax | None, sections: tuple[str, ...]) -> None:
        """The call is over; `sections` are the marks that end a section of calls."""
        closers = call.closers if call else ()
        self.marks = (*closers, *sections)
        self._unclosed = set(self.marks)
        self._brackets = MAX_EXTRA if closers else 0

    def is_missed(self, mark: str) -> bool:
        return mark in self._unclosed

    def on_mark(self, mark: str) -> None:
        self._unclosed.discard(mark)

    def takes_bracket(self, character: str) -> bool:
        """Tell whether this is a surplus bracket."""
        if not character or character not in "}]" or not self._brackets:
            return False
        self._brackets -= 1
        return True
