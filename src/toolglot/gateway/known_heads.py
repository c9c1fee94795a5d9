"""Request heads that were parsed before, and requests whose body is still arriving."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from toolglot.dialect import Dialect
from toolglot.gateway.received import CallHead
from toolglot.manifest import Route
from toolglot.server.security import Caller, Guard
from toolglot.upstream.http_client.known_answers import KnownHead

if TYPE_CHECKING:
    from toolglot.gateway.model_route import ModelRoute

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,8})(?=\r\n)", re.IGNORECASE)
_LARGEST = 4096
"""Maximum size in bytes of a head that is cached."""


class RequestHead(Struct, frozen=True, eq=False, kw_only=True):
    """A parsed and authenticated request head. Clients send the same head with every request, except for the content
    length, so it is parsed once. `eq` is identity, so that it can be a key in caches."""

    path: str
    route: Route
    values: Mapping[str, str]
    """Values of the path's parameters."""
    client: Dialect
    stream_lines: bytes
    """The headers of every streamed answer."""
    request_id_start: bytes = b""
    """The start of the header in which the client reads the request's id, unless that is `x-request-id`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    caller: Caller
    credentials: tuple[str, ...] = ()
    """The credentials in the head."""
    call_heads: dict[tuple[str, str, bool], CallHead] = field(default_factory=dict)
    """The heads of calls to upstreams for such requests (`ReceivedRequest.call_heads`)."""
    answer_lines: dict[tuple[object, ...], bytes] = field(default_factory=dict)
    """The headers of answers, by upstream, model and their receipt headers."""
    routes: dict[str, ModelRoute] = field(default_factory=dict)
    """Shared state of such requests for the same model."""
    guard: Guard
    """The guard that authenticated the caller."""


class KnownRequestHead(KnownHead, frozen=True, eq=False):
    """The bytes of an admitted head."""

    head: RequestHead


def around_length(data: bytes) -> tuple[bytes, bytes, int] | None:
    """Return the head before and after the value of its length field, and the size of both parts; None if there is no
    such field, or the head is large. The head was parsed before, so nothing but the field matches."""
    end = data.find(b"\r\n\r\n", 0, _LARGEST) + 4
    found = _LENGTH.search(data, 0, end)
    if found is None:
        return None
    before, behind = found.span(1)
    return data[:before], data[behind:end], before + end - behind


class PendingRequest(Struct, eq=False):
    """A request whose head has arrived. `left`: bytes that its body may still have if its connection answers it."""

    head: RequestHead
    left: int
    pieces: list[bytes]

    def add(self, piece: bytes) -> bool:
        """Add a piece of the body. Returns False once the body is too large to be answered on its connection."""
        self.pieces.append(piece)
        self.left -= len(piece)
        return self.left >= 0

    def body(self) -> bytes:
        if len(self.pieces) != 1:
            self.pieces = [b"".join(self.pieces)]
        return self.pieces[0]
