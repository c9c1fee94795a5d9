"""The connections of one loop: how many are in use, which are idle, and which have waited too long.

One timer serves all connections: while there are any, the pool is swept every second, or sooner if a limit is shorter.
So a request needs no timer of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING

from toolglot.upstream.http_client.connection import SWEEP_INTERVAL, Connection
from toolglot.upstream.http_client.limits import KEEP_ALIVE
from toolglot.upstream.http_client.write_batch import write_batch_for

if TYPE_CHECKING:
    from toolglot.upstream.http_client.destination import Destination


class ConnectionPool:
    """The connections of one event loop. A slot is the right to use a connection, idle or new; there are `size` slots.
    A released slot goes to the caller that has waited longest."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.connections: set[Connection] = set()
        self._size = size
        self._free = size
        self._idle: dict[Destination, list[Connection]] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_at = inf
        self._closed = False
        self._write_batch = write_batch_for(loop)

    def write(self, transport: asyncio.Transport, data: bytes) -> None:
        """Write a request, now or batched with others."""
        self._write_batch.put(self.loop, transport, data, self._size - self._free > 1)

    # Slots

    def acquire_idle(self, destination: Destination, now: float) -> Connection | None:
        """Return the most recently used idle connection to `destination` together with a slot; None without a free
        slot."""
        idle = self._idle.get(destination)
        if not idle or self._free <= 0:
            return None
        while idle:
            connection = idle.pop()
            if now - connection.heard < KEEP_ALIVE and not connection.transport.is_closing():
                self._free -= 1
                return connection
            connection.transport.close()
        return None

    async def acquire(self) -> None:
        """Wait for a slot."""
        if self._free > 0:
            self._free -= 1
            return
        waiting = self.loop.create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled():  # it was given a slot in the same moment
                self.release()
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
            raise

    def take_idle(self, destination: Destination, now: float) -> Connection | None:
        """Return an idle connection to a caller that already has a slot."""
        self._free += 1
        connection = self.acquire_idle(destination, now)
        if connection is None:
            self._free -= 1
        return connection

    def release(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free += 1

    def give_back(self, connection: Connection) -> None:
        """Take back an idle connection and release its slot."""
        if self._closed:
            connection.transport.close()
        else:
            connection.heard = self.loop.time()
            idle = self._idle.get(connection.destination)
            if idle is None:
                self._idle[connection.destination] = [connection]
            else:
                idle.append(connection)
        if self._waiting:
            self.release()
        else:
            self._free += 1

    # Connections

    def add(self, connection: Connection) -> None:
        self.connections.add(connection)
        self.sweep_by(self.loop.time() + SWEEP_INTERVAL)

    def forget(self, connection: Connection) -> None:
        """Remove a connection that must not be reused."""
        idle = self._idle.get(connection.destination)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def discard_idle(self, destination: Destination) -> None:
        """Discard the idle connections to `destination`. A reused one was closed, so others may be, too, and a retry
        must get a new one."""
        for connection in self._idle.pop(destination, ()):
            connection.transport.close()

    def on_lost(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.forget(connection)

    def close(self) -> None:
        self._closed = True
        self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            if connection.sending is None:
                connection.transport.close()
            else:
                connection.transport.abort()

    # The sweep

    def sweep_by(self, time: float) -> None:
        """Schedule a sweep no later than `time`."""
        if time < self._sweep_at and not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._sweep_at = time
            self._timer = self.loop.call_at(time, self._sweep)

    def _sweep(self) -> None:
        self._timer, self._sweep_at = None, inf
        now = self.loop.time()
        first = now + SWEEP_INTERVAL
        for connection in list(self.connections):
            deadline = connection.deadline()
            if deadline <= now:
                connection.on_deadline()
            elif deadline < first:
                first = deadline
        self._close_old(now)
        if self.connections:
            self.sweep_by(first)

    def _close_old(self, now: float) -> None:
        for destination, idle in list(self._idle.items()):
            old = 0
            while old < len(idle) and now - idle[old].heard >= KEEP_ALIVE:
                idle[old].transport.close()
                old += 1
            del idle[:old]
            if not idle:
                del self._idle[destination]
