"""One request on its way, and who is told of its answer."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from toolglot.upstream.transport import Timeouts, TransportError

if TYPE_CHECKING:
    from toolglot.upstream.http_client.connection import Connection


class Receiver(Protocol):
    """Who is told of an answer. After `on_whole`, `on_end`, `on_broken` or `Sending.abort` nothing more is told."""

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Names in lower case, repeated ones joined."""
        ...

    def on_body(self, data: bytes) -> None:
        """All that one read of the socket brought of the body; never empty."""
        ...

    def on_end(self) -> None:
        """The body is complete. The connection is back in the pool, or closed, already."""
        ...

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        """A successful answer of which all has come at once, in place of all of these. The connection is back in the
        pool already."""
        ...

    def on_broken(self, error: TransportError) -> None:
        """There is no answer, or no more of it. What came before the break has been told."""
        ...


class Sending(Struct, eq=False):
    """One request on its way, for whoever sent it. All of it does nothing once the answer is over."""

    connection: Connection
    receiver: Receiver
    """May be exchanged while the answer goes on."""
    timeouts: Timeouts
    bodiless: bool
    """The answer has no body, whatever its head says: that of a HEAD."""
    reused: bool
    """It went out on a connection that had answered before."""
    began: bool = False
    """The head of the answer has been told."""
    unanswered: bool = False
    """The connection was closed before a byte of the answer came."""

    def pause(self) -> None:
        """Read no more from the socket. What was read already is told still."""
        if self.connection.sending is self:
            self.connection.pause()

    def resume(self) -> None:
        if self.connection.sending is self:
            self.connection.resume()

    def abort(self) -> None:
        """Give the answer up and cut the socket."""
        if self.connection.sending is self:
            self.connection.give_up()

    def watch(self, watched: bool) -> None:
        """Whether silence counts from now on. It does unless this is called, but for while reading is paused."""
        if self.connection.sending is self and self.began:
            self.connection.expect(self.timeouts.idle if watched else inf)
