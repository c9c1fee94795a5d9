"""Calls that stand inside reasoning.

They are run only if nothing but calls follows, up to the end of the answer: then the model forgot to close its
reasoning. Otherwise it was thinking about them, and all of it is reasoning. So they are read aside until that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from toolglot.textcalls.events import CallEvent

MAX_SIZE: Final = 1024 * 1024
"""More text than this is not kept: it is reasoning."""


class Reader(Protocol):
    strayed: int | None

    def feed(self, text: str) -> Sequence[CallEvent]: ...
    def finish(self) -> Sequence[CallEvent]: ...


class Aside:
    """A reader of its own for what begins at the offset `start` of the answer."""

    __slots__ = ("_events", "_parts", "_reader", "_size", "start")

    def __init__(self, reader: Reader, start: int) -> None:
        self.start = start
        self._reader = reader
        self._parts: list[str] = []
        self._events: list[CallEvent] = []
        self._size = 0

    def feed(self, text: str) -> int | None:
        """Read on; where something other than calls was met, if it was."""
        self._parts.append(text)
        self._size += len(text)
        self._events += self._reader.feed(text)
        if self._reader.strayed is None and self._size > MAX_SIZE:
            return self.start + MAX_SIZE
        return self._reader.strayed

    def finish(self, *, cut: bool) -> Sequence[CallEvent] | None:
        """The events, if there was nothing but whole calls. `cut`: more was to follow, so that nobody knows."""
        events = [*self._events, *self._reader.finish()]
        whole = self._reader.strayed is None and not any(event[0] in ("cut", "text") for event in events)
        return events if whole and not cut else None

    @property
    def text(self) -> str:
        return "".join(self._parts)
