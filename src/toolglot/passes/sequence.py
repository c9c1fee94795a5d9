"""Turn interleaved blocks into one block at a time.

Events of the block that opened first pass at once; events of later blocks wait until it closes. Blocks keep the order
in which they opened, and nothing inside a block is reordered.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start

MAX_WAITING_CHARACTERS = 32 * 1024 * 1024
MAX_WAITING_BLOCKS = 10_000
EVENT_SIZE = 64
"""Size that an event counts in addition to its text: small events cost memory too."""


class Sequencer:
    __slots__ = ("_current", "_ended", "_waiting", "_waiting_size")

    def __init__(self) -> None:
        self._current = -1  # index of the block whose events pass; -1 between blocks
        self._waiting: dict[int, list[Event]] = {}
        self._waiting_size = 0
        self._ended = False

    def feed(self, event: Event) -> Sequence[Event]:
        # Blocks leave in the order of Open, so their indices need no renumbering.
        if self._ended:
            return ()
        match event:
            case Delta(index=index):
                if index == self._current:
                    return (event,)
                return self._wait(index, event)
            case Open(index=index):
                if self._current < 0:
                    self._current = index
                    return (event,)
                self._waiting[index] = []
                return self._wait(index, event)
            case Close(index=index):
                if index != self._current:
                    return self._wait(index, event)
                return (event, *self._next_blocks())
            case Start():
                return (event,)
            case Finish() | Fault():
                self._ended = True
                return (event,)

    def _wait(self, index: int, event: Event) -> Sequence[Event]:
        self._waiting[index].append(event)
        self._waiting_size += _size(event)
        if self._waiting_size > MAX_WAITING_CHARACTERS or len(self._waiting) > MAX_WAITING_BLOCKS:
            self._ended = True
            message = "The upstream interleaved more content than can be held back"
            return (Fault(ApiError(kind="server", status=502, code="upstream_too_interleaved", message=message)),)
        return ()

    def _next_blocks(self) -> list[Event]:
        """Release the events that waited for the block that just closed."""
        released: list[Event] = []
        self._current = -1
        while self._waiting and self._current < 0:
            index = next(iter(self._waiting))
            events = self._waiting.pop(index)
            self._waiting_size -= sum(map(_size, events))
            released += events
            if not isinstance(events[-1], Close):
                self._current = index
        return released


def _size(event: Event) -> int:
    return EVENT_SIZE + (len(event.text) if isinstance(event, Delta) else 0)
