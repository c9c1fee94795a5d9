"""One call and its whole answer, for what is read at once: lists of models, counts, stored responses."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolglot.upstream.transport import Call, Transport

MAX_LIST = 8 * 1024 * 1024
"""Bytes. No list of models is longer."""


class Whole(Struct, frozen=True):
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


async def fetch(transport: Transport, call: Call, limit: int) -> Whole:
    """The answer to this call, of at most so many bytes. Raises `TransportError`."""
    reply = await transport.send(call)
    try:
        return Whole(reply.status, reply.headers, await reply.read(limit))
    finally:
        reply.close()
