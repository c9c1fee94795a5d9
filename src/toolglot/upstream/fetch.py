"""One call and its complete answer: for model lists, token counts and stored responses."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolglot.upstream.transport import Transport, UpstreamCall

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
