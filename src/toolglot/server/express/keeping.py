"""What an upstream will want back of its answer, kept before the client sees the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolglot.server.states import Heard, States

if TYPE_CHECKING:
    from toolglot.server.express.lanes import Lane
    from toolglot.store import Store
    from toolglot.translate import Exchange


async def keep(store: Store | None, owner: str, lane: Lane, body: bytes, exchange: Exchange, heard: Heard) -> None:
    """Keep what was `heard` in the answer to this request, as the general way does."""
    request = lane.client.decode_request(body)
    states = States(store, owner)
    await states.found(lane.client, lane.upstream, lane.target, request, len(body))
    states.watch(exchange, heard)
    await states.keep(exchange, whole=False)
