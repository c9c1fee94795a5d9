"""Batch all socket writes of one event loop turn.

A write wakes the process that waits for the socket, which is most of the cost of a small write. Under load, that
process sleeps again before the next write; several writes in a row find it awake. Without load, there is nothing to
batch, and the end of the turn costs an additional callback. Then the next writes are not batched.
"""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakKeyDictionary

SMALL_BATCH = 2
"""Batches up to this size do not pay off."""
UNBATCHED_WRITES = 4
"""Writes that skip batching after a small batch."""
MAX_BATCH = 32
"""Maximum writes in a batch: a turn may be long, and the first write should not wait for all of it."""

log = logging.getLogger("toolglot.upstream")


class WriteBatch:
    """The batch of one event loop (`write_batch_for`). Call `flush` before writing to a transport directly or closing
    it."""

    __slots__ = ("_at_once", "_count", "_turn", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._turn = False  # a callback for the end of the turn is scheduled
        self._count = 0  # writes done in this turn
        self._at_once = 0

    def put(self, loop: asyncio.AbstractEventLoop, transport: asyncio.WriteTransport, data: bytes, busy: bool) -> None:
        """Write `data`. `busy`: other writes are likely in this turn."""
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
        if len(waiting) >= MAX_BATCH:
            self.flush()

    def _end_turn(self) -> None:
        self.flush()
        if self._count < SMALL_BATCH:
            self._at_once = UNBATCHED_WRITES
        self._turn, self._count = False, 0

    def flush(self) -> None:
        """Write everything that is pending."""
        waiting, self._waiting = self._waiting, []
        self._count += len(waiting)
        for transport, data in waiting:
            try:
                if not transport.is_closing():
                    transport.write(data)
            except Exception:  # an error of one transport must not lose the writes of others
                log.exception("a deferred write failed")
                transport.abort()


_batches: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatch] = WeakKeyDictionary()


def write_batch_for(loop: asyncio.AbstractEventLoop) -> WriteBatch:
    """Return the batch of a loop, which all its writers share."""
    return _batches.setdefault(loop, WriteBatch())
