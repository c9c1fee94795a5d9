"""What was tried as a call and may have to be read again as something else."""

from __future__ import annotations

from typing import Final

from toolglot.textcalls.grammar import Call

MAX_REREAD: Final = 1
"""Text is read again so many times, all in all, before what is no call is text as a whole."""


class Attempts:
    """The text since a call was opened, until it has really begun, and the calls that were tried in vain."""

    __slots__ = ("_call", "_held", "_refused", "_reread", "_start")

    def __init__(self) -> None:
        self._call: Call | None = None
        self._held: list[str] | None = None
        self._start = 0
        self._refused: dict[int, tuple[Call, ...]] = {}  # of the last offset alone
        self._reread = 0

    def open(self, call: Call, start: int, text: str) -> None:
        """A call is opened at the offset `start` of the answer by `text`."""
        self._call, self._start, self._held = call, start, [text]

    def read(self, text: str, at: int, end: int, *, begun: bool) -> None:
        """Its body has read from `at` to `end`. `begun`: nothing of it can be taken back any more."""
        if begun:
            self._held = None
        elif self._held is not None:
            self._held.append(text[at:end])

    def refused_at(self, offset: int) -> tuple[Call, ...]:
        return self._refused.get(offset, ())

    def refuse(self) -> tuple[str, int, bool]:
        """It is none: its text and where that began, and whether so much was read again that it is all text."""
        held = "".join(self._held or ())
        self._held = None
        before = self.refused_at(self._start)
        self._refused = {self._start: (*before, self._call) if self._call else before}
        self._reread += len(held)
        # Many openers, each read to the end in vain, would take quadratic time.
        return held, self._start, self._reread > MAX_REREAD * (self._start + len(held)) + 65536
