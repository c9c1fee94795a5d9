"""Speculatively parse calls inside reasoning.

They are run only if nothing but calls follows up to the end of the answer: then the model forgot to close its
reasoning. Otherwise, the model was only thinking about them, and the whole text is reasoning. So they are parsed
separately until this is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.marks import MarkSet, mark_set

MAX_SIZE: Final = 1024 * 1024
"""Longer text is not buffered: it is reasoning."""
FIRST_READ: Final = 64
"""Characters to read first; each further read doubles the total. So text that is recognized early as no call does not
cost a full read.
"""
MAX_REREAD: Final = 2
"""Total number of times that text is read again before calls in reasoning are no longer tried."""


FAILED_ATTEMPT_STEPS: Final = 4
"""Steps that a failed attempt counts for."""


class CallReader(Protocol):
    strayed: int | None

    def feed(self, text: str) -> Sequence[CallEvent]: ...
    def finish(self) -> Sequence[CallEvent]: ...


class SpeculativeReader:
    """A separate reader for text from the offset `start` of the answer. The end of the reasoning ends it, even inside a
    call, because what follows is no longer reasoning."""

    __slots__ = ("_ends", "_events", "_parts", "_reader", "_size", "start")

    def __init__(self, reader: CallReader, start: int, ends: MarkSet) -> None:
        self.start = start
        self._reader = reader
        self._ends = ends
        self._parts: list[str] = []
        self._events: list[CallEvent] = []
        self._size = 0

    def feed(self, text: str, at: int, *, last: bool) -> tuple[int, int | None]:
        """Read from `at`. Returns the position, and the offset of the first content that is not a call, if any. `last`:
        the input ends here.
        """
        while at < len(text):
            step = min(len(text), at + max(FIRST_READ, self._size))
            end = self._ends.search(text, at, step + self._ends.longest - 1)
            stop = end.start() if end else self._ends.hold(text, at) if step == len(text) and not last else step
            self._take(text[at:stop])
            at = stop
            if self._reader.strayed is not None:
                return at, self._reader.strayed
            if end or self._size > MAX_SIZE:
                return at, self.start + self._size
            if stop < step:
                break
        return at, None

    def _take(self, text: str) -> None:
        if not text:
            return
        self._parts.append(text)
        self._size += len(text)
        self._events += self._reader.feed(text)

    def finish(self, *, cut: bool) -> Sequence[CallEvent] | None:
        """Return the events if there were only complete calls. `cut`: the text was truncated, so this is unknown."""
        events = [*self._events, *self._reader.finish()]
        whole = self._reader.strayed is None and not any(event[0] in ("cut", "text") for event in events)
        return events if whole and not cut else None

    @property
    def size(self) -> int:
        return self._size

    @property
    def text(self) -> str:
        return "".join(self._parts)


class Speculation:
    """The current speculation, and the earliest start of the next."""

    __slots__ = ("_ends", "_next", "_reread", "_steps", "open")

    def __init__(self, ends: tuple[str, ...]) -> None:
        self.open: SpeculativeReader | None = None
        self._ends = mark_set(ends)
        self._next = 0
        self._reread = 0
        self._steps = 0

    def may_open(self, offset: int) -> bool:
        return offset >= self._next and self._reread <= MAX_REREAD * offset + 65536

    def begin(self, reader: CallReader, start: int, steps: int) -> None:
        """Begin the speculation. `steps` is the number of steps of the answer so far."""
        self.open = SpeculativeReader(reader, start, self._ends)
        self._steps = steps + FAILED_ATTEMPT_STEPS

    def close(self, strayed: int) -> int:
        """End the speculation. Text up to `strayed` is not tried again; its opener may not be a call.

        Returns the steps of the answer before the speculation. How far it read depends on how the text is split, so its
        own steps must not count.
        """
        if self.open is not None:
            self._next = max(strayed, self.open.start + 1)
            self._reread += self.open.size
        self.open = None
        return self._steps
