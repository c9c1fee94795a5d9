"""A request on its way from the express lane to the general one, with what its upstream has said already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolglot.server.record import Record
from toolglot.upstream.http_client import HttpReply, Sending, take_over
from toolglot.upstream.transport import TransportError
from toolglot.upstream.upstream import Upstream

if TYPE_CHECKING:
    from toolglot.server.gateway import Gateway
    from toolglot.upstream.breaker import Ticket

HANDED = "toolglot.handed"
"""The key of the ASGI scope under which it is found."""


def is_readable(headers: Mapping[str, str]) -> bool:
    """Can an answer with these headers be taken as it is? A proxy's page cannot, nor one that is packed."""
    return "content-encoding" not in headers and not headers.get("content-type", "").startswith("text/html")


class Handed:
    """The reply to a call that was made, or the failure of it: whichever there is takes the place of the first call.

    Where there is neither, nothing has been sent yet. The request was let in once, by the `gateway` of that moment, and
    counts as one in flight: it keeps its place, and its `ticket` for the upstream.
    """

    __slots__ = ("_breaker", "_error", "_model", "_reply", "_sending", "_ticket", "_upstream", "gateway", "record")

    def __init__(
        self,
        record: Record,
        gateway: Gateway,
        upstream: Upstream,
        model: str,
        ticket: Ticket | None,
        error: TransportError | None = None,
    ) -> None:
        self.record = record
        self.gateway = gateway
        self._breaker = gateway.breaker(upstream)
        self._ticket = ticket
        self._upstream = upstream
        self._model = model
        self._reply: HttpReply | None = None
        self._sending: Sending | None = None
        self._error = error

    def goes_on(self, sending: Sending, status: int, headers: dict[str, str], body: bytes) -> None:
        """The answer is still coming; without a status even its head is."""
        self._sending = sending
        if status:
            self._reply = take_over(sending, status, headers, body)
        else:
            self._reply = sending.receiver = HttpReply(sending.connection.destination.name)

    def is_whole(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """All of the answer is there."""
        self._reply = reply = HttpReply(self._upstream.name)
        reply.on_head(status, headers)
        if body:
            reply.on_body(body)
        reply.on_end()

    @property
    def begun(self) -> tuple[str, float]:
        """The request's id, and when it came."""
        return self.record.id, self.record.started

    def ticket(self, upstream: Upstream) -> Ticket | None:
        """With which this upstream has been asked already, if it has."""
        if self._upstream is not upstream:
            return None
        ticket, self._ticket = self._ticket, None
        return ticket

    async def reply(self, upstream: Upstream, model: str) -> HttpReply | None:
        """The reply to this call as soon as its head is there; None if it was not made. Raises `TransportError`."""
        if self._upstream is not upstream or self._model != model:
            return None
        if self._error is not None:
            raise self._error
        reply, self._reply = self._reply, None
        if reply is not None and self._sending is not None and not reply.status:
            try:
                await reply.head(self._sending)
            except BaseException:
                self._sending.abort()
                raise
        return reply

    def drop(self) -> None:
        """Nobody wants the reply."""
        if self._ticket is not None:
            self._breaker.leave(self._ticket)
        if self._sending is not None and self._reply is not None:
            self._sending.abort()
