"""A request in flight, and the receiver of its answer."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from toolglot.upstream.transport import Timeouts, TransportError

if TYPE_CHECKING:
    from toolglot.upstream.http_client.connection import Connection


class AnswerReceiver(Protocol):
    """Callbacks for an answer. None follows after `on_whole`, `on_end`, `on_broken` or `InFlightRequest.abort`."""

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Handle the head of an answer. Header names are in lower case; repeated fields are joined."""
        ...

    def on_body(self, data: bytes) -> None:
        """Handle all body bytes of one socket read; never empty."""
        ...

    def on_end(self) -> None:
        """Handle the end of the body. The connection is already back in the pool, or closed."""
        ...

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        """Handle a successful answer that arrived in one read. Replaces the other callbacks. The connection is already
        back in the pool."""
        ...

    def on_broken(self, error: TransportError) -> None:
        """Handle a missing or incomplete answer. All data received before the break has been delivered."""
        ...


class InFlightRequest(Struct, eq=False):
    """One request in flight. Its methods do nothing once the answer has ended."""

    connection: Connection
    receiver: AnswerReceiver
    """May be replaced while the answer is received."""
    timeouts: Timeouts
    bodiless: bool
    """True if the answer has no body even if its head announces one: an answer to HEAD."""
    reused: bool
    """True if the request was sent on a reused connection."""
    began: bool = False
    """True if the head of the answer has been delivered."""
    unanswered: bool = False
    """True if the connection was closed before the first byte of the answer."""

    def pause(self) -> None:
        """Stop reading from the socket. Data that was already read is still delivered."""
        if self.connection.sending is self:
            self.connection.pause()

    def resume(self) -> None:
        if self.connection.sending is self:
            self.connection.resume()

    def abort(self) -> None:
        """Abort the answer and close the socket."""
        if self.connection.sending is self:
            self.connection.give_up()

    def watch(self, watched: bool) -> None:
        """Set whether silence counts as a timeout. By default it does, except while reading is paused."""
        if self.connection.sending is self and self.began:
            self.connection.expect(self.timeouts.idle if watched else inf)
