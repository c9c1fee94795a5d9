"""Which connections there are, how many are in use, and which of them have waited too long.

One timer for all: while there are connections the pool is swept every second, or sooner where a limit is shorter. A
request therefore costs no timer of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING

from toolglot.upstream.http_client.connection import SHORT, Connection
from toolglot.upstream.http_client.outbox import outbox_of
from toolglot.upstream.http_client.rules import KEEP_ALIVE

if TYPE_CHECKING:
    from toolglot.upstream.http_client.destination import Destination


class Pool:
    """The connections of one event loop.

    A place is the right to use a connection, idle or new: there are `size` of them. Whoever takes one leaves it again,
    and it goes to the one who has waited longest.
    """

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
        self._outbox = outbox_of(loop)

    def write(self, transport: asyncio.Transport, data: bytes) -> None:
        """Write a request, now or together with others."""
        self._outbox.put(self.loop, transport, data, self._size - self._free > 1)

    # Places

    def idle(self, destination: Destination, now: float) -> Connection | None:
        """An idle connection to there, the one used last, and a place to use it from; none without a free place."""
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

    async def enter(self) -> None:
        """A place, as soon as there is one."""
        if self._free > 0:
            self._free -= 1
            return
        waiting = self.loop.create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled():  # it was given a place in the same moment
                self.leave()
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
            raise

    def take(self, destination: Destination, now: float) -> Connection | None:
        """An idle connection for who has a place already."""
        self._free += 1
        connection = self.idle(destination, now)
        if connection is None:
            self._free -= 1
        return connection

    def leave(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free += 1

    def give_back(self, connection: Connection) -> None:
        """The connection is idle and its place is free."""
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
            self.leave()
        else:
            self._free += 1

    # Connections

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        self.sweep_by(self.loop.time() + SHORT)

    def forget(self, connection: Connection) -> None:
        """It is not to be used again."""
        idle = self._idle.get(connection.destination)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def distrust(self, destination: Destination) -> None:
        """A connection to there had been closed when it was used, and the other idle ones may have been too: who tries
        again is to have a new one."""
        for connection in self._idle.pop(destination, ()):
            connection.transport.close()

    def lost(self, connection: Connection) -> None:
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
        """Sweep then at the latest."""
        if time < self._sweep_at and not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._sweep_at = time
            self._timer = self.loop.call_at(time, self._sweep)

    def _sweep(self) -> None:
        self._timer, self._sweep_at = None, inf
        now = self.loop.time()
        first = now + SHORT
        for connection in list(self.connections):
            deadline = connection.deadline()
            if deadline <= now:
                connection.late()
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
