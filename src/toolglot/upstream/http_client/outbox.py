"""What is written in one turn of the event loop, written together at its end.

To write to a socket wakes whoever waits for it, and that is the larger part of what a small write costs. Where much is
going on, the next write comes when he is asleep again; several in a row find him awake. Where little is, nothing comes
together and the end of the turn is one more thing to do: then the next ones are written at once.
"""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakKeyDictionary

FEW = 2
"""Writes of a turn that are not worth it."""
AT_ONCE = 4
"""Writes that are done at once after such a turn."""
MOST = 32
"""Writes that wait: a turn may be long, and who comes first should not wait for all of it."""

log = logging.getLogger("toolglot.upstream")


class Outbox:
    """That of one event loop (`outbox_of`). Who writes to a transport past it, or closes it, says `flush` first."""

    __slots__ = ("_at_once", "_count", "_turn", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._turn = False  # there is one whose end will be told
        self._count = 0  # of its writes that are done
        self._at_once = 0

    def put(self, loop: asyncio.AbstractEventLoop, transport: asyncio.WriteTransport, data: bytes, busy: bool) -> None:
        """Write; `busy`: others may write in this turn too."""
        if not self._turn:
            if self._at_once:
                self._at_once -= 1
                busy = False
            if not busy:
                transport.write(data)
                return
            self._turn = True
            loop.call_soon(self._end_turn)
        waiting = self._waiting
        waiting.append((transport, data))
        if len(waiting) >= MOST:
            self.flush()

    def _end_turn(self) -> None:
        self.flush()
        if self._count < FEW:
            self._at_once = AT_ONCE
        self._turn, self._count = False, 0

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        self._count += len(waiting)
        for transport, data in waiting:
            try:
                if not transport.is_closing():
                    transport.write(data)
            except Exception:  # the fault of one transport must not cost the others what is theirs
                log.exception("what was put off could not be written")
                transport.abort()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """All who write share one, or they would not write together."""
    return _outboxes.setdefault(loop, Outbox())
