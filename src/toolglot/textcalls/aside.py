"""Calls that stand inside reasoning.

They are run only if nothing but calls follows, up to the end of the answer: then the model forgot to close its
reasoning. Otherwise it was thinking about them, and all of it is reasoning. So they are read aside until that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.marks import Marks, marks_of

MAX_SIZE: Final = 1024 * 1024
"""More text than this is not kept: it is reasoning."""
FIRST_STEP: Final = 64
"""So much is read first, then as much again as was read: what strays early must not cost the rest of the text."""
MAX_REREAD: Final = 2
"""Text is read again so many times, all in all, before no further call in reasoning is tried."""


STEPS: Final = 4
"""What an aside that was none counts for."""


class Reader(Protocol):
    strayed: int | None

    def feed(self, text: str) -> Sequence[CallEvent]: ...
    def finish(self) -> Sequence[CallEvent]: ...


class Aside:
    """A reader of its own for what begins at the offset `start` of the answer. The end of the reasoning ends it, also
    inside a call: what goes on there is no longer the reasoning."""

    __slots__ = ("_ends", "_events", "_parts", "_reader", "_size", "start")

    def __init__(self, reader: Reader, start: int, ends: Marks) -> None:
        self.start = start
        self._reader = reader
        self._ends = ends
        self._parts: list[str] = []
        self._events: list[CallEvent] = []
        self._size = 0

    def feed(self, text: str, at: int, *, last: bool) -> tuple[int, int | None]:
        """Read on from `at`: where reading stopped, and the offset of something other than calls, if that was met.
        `last`: nothing follows."""
        while at < len(text):
            step = min(len(text), at + max(FIRST_STEP, self._size))
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
        """The events, if there was nothing but whole calls. `cut`: more was to follow, so that nobody knows."""
        events = [*self._events, *self._reader.finish()]
        whole = self._reader.strayed is None and not any(event[0] in ("cut", "text") for event in events)
        return events if whole and not cut else None

    @property
    def size(self) -> int:
        return self._size

    @property
    def text(self) -> str:
        return "".join(self._parts)


class Asides:
    """The aside that is open, and where the next may begin."""

    __slots__ = ("_ends", "_next", "_reread", "_steps", "open")

    def __init__(self, ends: tuple[str, ...]) -> None:
        self.open: Aside | None = None
        self._ends = marks_of(ends)
        self._next = 0
        self._reread = 0
        self._steps = 0

    def may_open(self, offset: int) -> bool:
        return offset >= self._next and self._reread <= MAX_REREAD * offset + 65536

    def begin(self, reader: Reader, start: int, steps: int) -> None:
        """`steps` are those that the answer has taken so far."""
        self.open = Aside(reader, start, self._ends)
        self._steps = steps + STEPS

    def close(self, strayed: int) -> int:
        """What it has read up to `strayed` is not tried once more. Its opener itself may have turned out to be none.
        Returns the steps of the answer: how far the aside read before it strayed depends on the pieces of the text, so
        that its own steps cannot count."""
        if self.open is not None:
            self._next = max(strayed, self.open.start + 1)
            self._reread += self.open.size
        self.open = None
        return self._steps
