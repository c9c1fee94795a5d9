"""The interface to an upstream: one call, one reply.

`upstream/http_client` uses the network, and `upstream/demo` runs in the process. The gateway knows neither: anything
with these methods can be an upstream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Literal, Protocol

from msgspec import Struct


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts in seconds. `idle` limits the silence within a response; `progress` limits the time with nothing but
    keep-alives."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0
    progress: float = 900.0


class UpstreamCall(Struct, frozen=True, kw_only=True):
    """One HTTP request to an upstream. Header names are in lower case."""

    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    method: str = "POST"
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        """Omits the headers, which hold a credential, and the query."""
        return f"Call({self.method} {self.url.partition('?')[0]})"


TransportFailure = Literal["pool", "connect", "tls", "timeout", "reset", "too_large"]


class TransportError(Exception):
    """No reply, or a reply that broke off.

    `pool`: all our own connections are in use, which is not the upstream's fault. `connect` and `tls`: no part of
    the request was sent. `timeout` and `reset`: the upstream may have seen it. `too_large`: the reply is over the
    limit. The message contains no credential and no query string.

    `not_running`: nothing listens at an address of this machine. Clients should report that and not retry for minutes.
    """

    def __init__(self, failure: TransportFailure, message: str, *, not_running: bool = False) -> None:
        super().__init__(message)
        self.failure = failure
        self.not_running = not_running


def too_large(limit: int) -> TransportError:
    return TransportError("too_large", f"its answer has more than {limit} bytes")


class Reply(Protocol):
    """The head of an answer, with access to its body. The holder must close it in any case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header names are in lower case."""
        ...

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises `TransportError("too_large")` if it has more than `limit` bytes."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, never an empty piece. Raises `TransportError` if it breaks off."""
        ...

    def close(self) -> None:
        """Return the connection to the pool if the body was read completely; otherwise close it at once."""
        ...


class Transport(Protocol):
    async def send(self, call: UpstreamCall) -> Reply:
        """Return the reply as soon as its head has arrived. Raises `TransportError`."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


MAX_LIST_BYTES = 8 * 1024 * 1024
"""No list of models is longer."""


class FetchedAnswer(Struct, frozen=True):
    """An answer that was read completely."""

    status: int
    headers: Mapping[str, str]
    """Header names are in lower case."""
    body: bytes


async def fetch(transport: Transport, call: UpstreamCall, limit: int) -> FetchedAnswer:
    """Return the complete answer to this call, up to `limit` bytes. Raises `TransportError`."""
    reply = await transport.send(call)
    try:
        return FetchedAnswer(reply.status, reply.headers, await reply.read(limit))
    finally:
        reply.close()
