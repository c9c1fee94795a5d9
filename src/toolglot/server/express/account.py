"""What a crossing owes those who count: the breaker, the limit of requests, receipts, metrics and the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.receipt import Loss
from toolglot.server.body_budget import BodyHold
from toolglot.server.record import Record
from toolglot.upstream.breaker import Breaker, Ticket
from toolglot.upstream.transport import TransportError

if TYPE_CHECKING:
    from toolglot.server.gateway import Gateway
    from toolglot.server.service import Service


class Account(Struct, eq=False):
    """Of a request that counts as one in flight already."""

    _service: Service
    gateway: Gateway
    """The one of the moment the request came."""
    _breaker: Breaker
    _ticket: Ticket | None
    record: Record
    hold: BodyHold | None = None
    """What the request's body takes of the budget."""

    def release_body(self) -> None:
        if self.hold is not None:
            self.hold.release()

    def answer(self) -> None:
        """A stream has begun."""
        if self._ticket is not None:
            self._breaker.answer(self._ticket)

    def settle(self, error: TransportError | None) -> None:
        """The upstream has answered, or has failed to."""
        if self._ticket is not None:
            now = 0.0 if error is None else asyncio.get_running_loop().time()  # a success has no time
            self._breaker.settle(self._ticket, error, now)
            self._ticket = None

    def leave(self) -> None:
        """Nobody will know how the upstream would have done."""
        if self._ticket is not None:
            self._breaker.leave(self._ticket)
            self._ticket = None

    def hand_over(self) -> Ticket | None:
        """The general way goes on from here, and settles. It charges the body anew."""
        self.release_body()
        ticket, self._ticket = self._ticket, None
        return ticket

    def close(self, lines: tuple[Loss, ...], now: float) -> None:
        """The request is over."""
        self.release_body()
        service, record = self._service, self.record
        record.ended = now
        service.in_flight -= 1
        service.receipts.keep(record, lines)
        for observe in service.observers:
            try:
                observe(record)
            except OSError:  # a log that cannot be written
                continue
