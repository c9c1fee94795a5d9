"""The state around one answer. Only clients of the Responses API have any: for all others this does nothing."""

from __future__ import annotations

import asyncio
import logging
from time import time

from toolglot.dialects import STORED
from toolglot.gateway.features.responses_history import (
    Expanded,
    StreamTap,
    echo,
    expand,
    expand_alone,
    not_stored,
    settle,
    unstored,
)
from toolglot.receipt import Loss, Receipt
from toolglot.store import Store, StoreError
from toolglot.upstream.offload import offload

log = logging.getLogger("toolglot.server")

DIALECT = STORED

PATIENCE = 1.5
"""Seconds that an answer waits for being stored, whatever holds the store up."""


class Turn:
    """What goes to the client passes through here, so that a turn is kept before the client can go on from it."""

    def __init__(self, expanded: Expanded | None, store: Store | None, owner: str) -> None:
        self._expanded = expanded
        self._store = store
        self._owner = owner
        self._tap = StreamTap(expanded) if expanded is not None else None
        self._kept = False
        self.store_failure: str | None = None
        """Why the answer could not be stored, if it could not."""

    @classmethod
    async def begin(
        cls, dialect: str, body: bytes, store: Store | None, owner: str, *, upstream_keeps_state: bool
    ) -> tuple[Turn, bytes]:
        """The turn, and the request with its history in it. Raises `RefusedError`."""
        if dialect != DIALECT or (store is None and upstream_keeps_state):
            return cls(None, None, owner), body
        if store is None:
            return cls(await offload(len(body), unstored, body), None, owner), body
        expanded = await expand(body, store, owner, upstream_keeps_state=upstream_keeps_state)
        return cls(expanded, store, owner), expanded.body

    @classmethod
    def begin_alone(
        cls, body: bytes, store: Store | None, owner: str, *, upstream_keeps_state: bool
    ) -> tuple[Turn, bytes] | None:
        """The same for a request that says everything itself; None if the store has to be asked first."""
        if store is None and upstream_keeps_state:
            return cls(None, None, owner), body
        if store is None:
            return cls(unstored(body), None, owner), body
        expanded = expand_alone(body, upstream_keeps_state=upstream_keeps_state)
        return None if expanded is None else (cls(expanded, store, owner), expanded.body)

    @property
    def is_active(self) -> bool:
        """Whether there is anything to do for this answer."""
        return self._expanded is not None and self._expanded.echoes

    @property
    def withheld(self) -> tuple[Loss, ...]:
        """What the receipt says of an answer that is not stored."""
        return () if self._expanded is None else self._expanded.withheld or ()

    def rewrite(self, body: bytes) -> bytes:
        """A whole answer, as the client is to see it; `keeps_whole` is to be asked before it is sent."""
        return body if self._expanded is None else echo(self._expanded, body)

    @property
    def keeps_whole(self) -> bool:
        """Whether a whole answer is to be stored by `keep_whole`."""
        return self._store is not None and self._expanded is not None and self._expanded.remembered

    async def keep_whole(self, body: bytes) -> bytes:
        """Store a rewritten answer; if that fails it says so."""
        return body if await self._keep(body) else not_stored(body)

    def feed(self, data: bytes) -> bytes:
        """A piece of a stream, as the client is to see it; `is_due` is to be asked before it is sent."""
        return data if self._tap is None else self._tap.feed(data)

    @property
    def is_due(self) -> bool:
        """The stream has ended well, and the turn is not kept yet."""
        return self._store is not None and self._tap is not None and self._tap.response is not None and not self._kept

    async def keep(self, data: bytes) -> bytes:
        """Keep a turn that is due; `data` is the piece that ends it. If that fails its last event says so. The first
        one has said otherwise, but clients take the response from the last."""
        assert self._tap is not None
        assert self._tap.response is not None
        return data if await self._keep(self._tap.response) else self._tap.retract(data)

    def note_failure(self, receipt: Receipt) -> None:
        """Put into the receipt that the answer could not be stored, once."""
        if self.store_failure is not None:
            receipt.loss("store", "store", f"the answer could not be stored: {self.store_failure}")
            self.store_failure = None

    def close(self) -> bytes:
        return b"" if self._tap is None else self._tap.close()

    async def _keep(self, response: bytes) -> bool:
        """Whether nothing went wrong."""
        self._kept = True
        assert self._expanded is not None
        assert self._store is not None
        try:
            async with asyncio.timeout(PATIENCE):
                await settle(self._expanded, response, self._store, self._owner, now=time())
        except (StoreError, TimeoutError) as error:
            # The answer is good all the same; only going on from it by its id will not work.
            why = str(error) or f"the store has not answered for {PATIENCE:g} seconds"
            log.warning("the response %s could not be stored: %s", self._expanded.id, why)
            self.store_failure = why
            return False
        return True
