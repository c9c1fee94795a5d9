"""Read the unneeded rest of a reply in the background, so that its connection can be reused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.upstream.http_client import InFlightRequest
from toolglot.upstream.transport import Reply, TransportError

if TYPE_CHECKING:
    from toolglot.gateway.sweep import DriverSweep

DRAIN_SECONDS = 1.0
"""Seconds to read the rest of an upstream's stream after the answer, so that its connection can be reused."""


class ReplyDrain(Struct, eq=False):
    """Discards the rest of a reply. A reply that does not end is abandoned.

    Either this receiver gets the reply, or a task reads it.
    """

    _sweep: DriverSweep
    _since: float
    _sending: InFlightRequest | None
    reply: Reply | None
    _task: asyncio.Task[None] | None

    def start(self) -> None:
        if self._sending is not None:
            self._sending.receiver = self
            self._sending.resume()
        self._sweep.add(self)

    def give_up(self) -> list[asyncio.Task[None]]:
        """Abandon the rest of the reply. Returns the task that this cancels."""
        tasks = [] if self._task is None else [self._task]
        if self._sending is not None:
            self._sending.abort()
        if self.reply is not None:
            self.reply.close()
        for task in tasks:
            task.cancel()
        self.on_end()
        return tasks

    # Called by the connection

    def on_head(self, status: int, headers: dict[str, str]) -> None: ...

    def on_body(self, data: bytes) -> None: ...

    def on_end(self) -> None:
        self._sending = self.reply = self._task = None
        self._sweep.discard(self)

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        self.on_end()

    def on_broken(self, error: TransportError) -> None:
        self.on_end()

    # Called by the sweep

    def tick(self, now: float, keepalive: float) -> None:
        if now - self._since >= DRAIN_SECONDS:
            self.give_up()

    def stop(self, error: ApiError) -> None:
        self.give_up()
