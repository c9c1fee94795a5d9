"""The commands that an answer flow yields, and their results: commands, outcomes and results.

A flow is a generator. It yields commands and is resumed, only by `send`, with the outcome:

    bytes         write this to the client (nothing, if empty), then report the next event
    Send          call an upstream           ReplyBegun, then bytes ... END; WholeReply; Failed
    BeginStream   write the head of a streamed answer                    None
    Write write this to the client and continue          None
    Wait wait for this number of seconds                               ELAPSED
    Await         run this coroutine function                            Done or Raised
    Offload       run this in a thread                                   Done or Raised
    RELEASE       the rest of the upstream's reply is not needed         None

Two outcomes may replace the expected one. `Silent`: nothing has happened for a while. The operation continues, and the
flow waits for it again with `bytes`. `Shutdown`: the server shuts down and waits no longer.

A flow returns its `Result`. `close` ends it at any yield, when the client has disconnected. A flow cannot await
anything then, so everything that it starts must be cancellable at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Final, TypeAlias, TypeVar, final

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.upstream.http_client.destination import PreparedCall
from toolglot.upstream.transport import Transport, TransportError, UpstreamCall

T = TypeVar("T")


# Commands


class Send(Struct, frozen=True, eq=False):
    transport: Transport
    call: UpstreamCall | PreparedCall
    limit: int
    """Bytes of an answer."""
    is_streaming: bool
    """True if the body is needed as it arrives. Otherwise, the body is read to its end first."""


class BeginStream(Struct, frozen=True, eq=False):
    upstream_headers: Mapping[str, str] | None = None
    """The headers of the upstream's reply; None while no upstream has answered."""


class Write(Struct, frozen=True, eq=False):
    data: bytes


class Wait(Struct, frozen=True, eq=False):
    seconds: float


class Await(Struct, frozen=True, eq=False):
    call: Callable[[], Awaitable[Any]]


class Offload(Struct, frozen=True, eq=False):
    size: int
    """Number of bytes that the work processes."""
    work: Callable[[], Any]


class Signal:
    """A command or an outcome without data."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


RELEASE: Final = Signal("RELEASE")


# Outcomes


@final
class ReplyBegun(Struct, frozen=True, eq=False):
    """The head of a reply whose body follows in pieces."""

    headers: Mapping[str, str]


@final
class WholeReply(Struct, frozen=True, eq=False):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Failed(Struct, frozen=True, eq=False):
    error: TransportError


class Done(Struct, frozen=True, eq=False):
    value: Any


class Raised(Struct, frozen=True, eq=False):
    error: Exception


class Silent(Struct, frozen=True, eq=False):
    """Reports silence: nothing was written to the client for `client` seconds, and nothing happened for `upstream`
    seconds."""

    client: float
    upstream: float


@final
class Shutdown(Struct, frozen=True, eq=False):
    """The server shuts down and no longer waits for this answer."""

    error: ApiError


END: Final = Signal("END")
"""The upstream's body is complete."""
ELAPSED: Final = Signal("ELAPSED")


# Results


@final
class WholeAnswer(Struct, frozen=True, eq=False):
    body: bytes
    upstream_headers: Mapping[str, str] = {}


class StreamEnd(Struct, frozen=True, eq=False):
    """The last bytes of a streamed answer."""

    data: bytes
    is_cut: bool = False
    """True if the upstream broke off: close the client's connection after these bytes."""
    upstream_headers: Mapping[str, str] | None = None
    """Headers of an answer that has not begun yet, because all of it arrived at once."""


Command: TypeAlias = "bytes | Send | BeginStream | Write | Wait | Await | Offload | Signal"
Outcome: TypeAlias = "bytes | Signal | ReplyBegun | WholeReply | Failed | Done | Raised | Silent | Shutdown | None"
Result: TypeAlias = "WholeAnswer | StreamEnd | ApiError"
"""An `ApiError` takes the place of an answer that has not begun."""
Flow: TypeAlias = Generator[Command, Outcome, Result]
Steps: TypeAlias = Generator[Command, Outcome, T]
"""A part of a flow."""
