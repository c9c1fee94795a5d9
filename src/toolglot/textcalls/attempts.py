"""Text that was tried as a call and may have to be read again as something else."""

from __future__ import annotations

from typing import Final

from toolglot.textcalls.grammar import CallSyntax

MAX_REREAD: Final = 1
"""Total number of times that text is read again before text that is no call is passed on as a whole."""


class CallAttempts:
    """The text since a call was opened, until it has really begun, and the failed attempts."""

    __slots__ = ("_call", "_held", "_refused", "_reread", "_start")

    def __init__(self) -> None:
        self._call: CallSyntax | None = None
        self._held: list[str] | None = None
        self._start = 0
        self._refused: dict[int, tuple[CallSyntax, ...]] = {}  # at the last offset only
        self._reread = 0

    def open(self, call: CallSyntax, start: int, text: str) -> None:
        """A call is opened at the offset `start` of the answer by `text`."""
        self._call, self._start, self._held = call, start, [text]

    def read(self, text: str, at: int, end: int, *, begun: bool) -> None:
        """The body has read from `at` to `end`. `begun`: nothing of it can be withdrawn any more."""
        if begun:
            self._held = None
        elif self._held is not None:
            self._held.append(text[at:end])

    def refused_at(self, offset: int) -> tuple[CallSyntax, ...]:
        return self._refused.get(offset, ())

    def refuse(self) -> tuple[str, int, bool]:
        """It is no call. Returns its text, where that began, and whether so much was read again that all of it is
        text."""
        held = "".join(self._held or ())
        self._held = None
        before = self.refused_at(self._start)
        self._refused = {self._start: (*before, self._call) if self._call else before}
        self._reread += len(held)
        # Many openers, each read to the end without success, would take quadratic time.
        return held, self._start, self._reread > MAX_REREAD * (self._start + len(held)) + 65536
