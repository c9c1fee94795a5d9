"""What a crossing owes those who count: the breaker, the limit of requests, receipts, metrics and the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolglot.receipt import Loss
from toolglot.server.record import Record
from toolglot.upstream.breaker import Breaker, Ticket
from toolglot.upstream.transport import TransportError

if TYPE_CHECKING:
    from toolglot.server.service import Service


class Account:
    __slots__ = ("_breaker", "_service", "_ticket", "record")

    def __init__(self, service: Service, breaker: Breaker, ticket: Ticket, record: Record) -> None:
        self._service = service
        self._breaker = breaker
        self._ticket: Ticket | None = ticket
        self.record = record
        service.in_flight += 1

    def answer(self) -> None:
        """A stream has begun."""
        if self._ticket is not None:
            self._breaker.answer(self._ticket)

    def settle(self, error: TransportError | None) -> None:
        """The upstream has answered, or has failed to."""
        if self._ticket is not None:
            self._breaker.settle(self._ticket, error, asyncio.get_running_loop().time())
            self._ticket = None

    def leave(self) -> None:
        """Nobody will know how the upstream would have done."""
        if self._ticket is not None:
            self._breaker.leave(self._ticket)
            self._ticket = None

    def hand_over(self) -> None:
        """The general way counts and settles for itself."""
        self.leave()
        self._service.in_flight -= 1

    def close(self, lines: tuple[Loss, ...]) -> None:
        """The request is over."""
        service, record = self._service, self.record
        record.ended = asyncio.get_running_loop().time()
        service.in_flight -= 1
        service.receipts.keep(record, lines)
        for observe in service.observers:
            try:
                observe(record)
            except OSError:  # a log that cannot be written
                continue
