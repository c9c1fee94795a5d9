"""The way to an upstream, as the gateway sees it: one call, one reply.

`upstream/http_client` goes over the network, and `upstream/demo` never leaves the process. The gateway knows neither:
whatever has these methods can be an upstream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Literal, Protocol

from msgspec import Struct


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds. `idle` is the longest silence inside an answer that has begun, `progress` the longest time in which it
    has nothing but keep-alives."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0
    progress: float = 900.0


class Call(Struct, frozen=True, kw_only=True):
    """One HTTP request to an upstream. Header names are in lower case."""

    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    method: str = "POST"
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        """Without the headers, which hold a credential, and without the query."""
        return f"Call({self.method} {self.url.partition('?')[0]})"


TransportFailure = Literal["pool", "connect", "tls", "timeout", "reset", "too_large"]


class TransportError(Exception):
    """No reply, or a reply that broke off.

    `pool`: all our own connections are in use, which says nothing of the upstream. `connect` and `tls`: nothing of
    the request has left. `timeout` and `reset`: the upstream may have seen it.
    `too_large`: the reply is over the limit. The message names no credential and no query string.
    """

    def __init__(self, failure: TransportFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


def too_large(limit: int) -> TransportError:
    return TransportError("too_large", f"its answer has more than {limit} bytes")


class Reply(Protocol):
    """The head of an answer, and the way to its body. Whoever holds one closes it, whatever happens."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body; `TransportError("too_large")` when it has more bytes than `limit`."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, never an empty piece. Raises `TransportError` when it breaks off."""
        ...

    def close(self) -> None:
        """Give the connection back when the body was read to its end; cut it at once otherwise."""
        ...


class Transport(Protocol):
    async def send(self, call: Call) -> Reply:
        """The reply to this call as soon as its head is there. Raises `TransportError`."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...
