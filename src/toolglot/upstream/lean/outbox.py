"""What is written in one turn of the event loop, written together at its end.

To write to a socket wakes whoever waits for it, and that is the larger part of what a small write costs. Where much is
going on, the next write comes when he is asleep again; several in a row find him awake. Where little is, nothing comes
together and the end of the turn is one more thing to do: then the next ones are written at once.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

FEW = 2
"""Writes of a turn that are not worth it."""
AT_ONCE = 32
"""Writes that are done at once after such a turn."""


class Outbox:
    """That of one event loop (`outbox_of`). Who writes to a transport past it, or closes it, says `flush` first."""

    __slots__ = ("_at_once", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._at_once = 0

    def put(self, loop: asyncio.AbstractEventLoop, transport: asyncio.WriteTransport, data: bytes, busy: bool) -> None:
        """Write; `busy`: others may write in this turn too."""
        if not self._waiting:
            if self._at_once:
                self._at_once -= 1
                busy = False
            if not busy:
                transport.write(data)
                return
            loop.call_soon(self._end_turn)
        self._waiting.append((transport, data))

    def _end_turn(self) -> None:
        if len(self._waiting) < FEW:
            self._at_once = AT_ONCE
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        for transport, data in waiting:
            if not transport.is_closing():
                transport.write(data)


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """All who write share one, or they would not write together."""
    return _outboxes.setdefault(loop, Outbox())
