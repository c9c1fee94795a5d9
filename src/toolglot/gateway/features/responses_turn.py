"""Storing one turn of the Responses API: an answer is stored before its client can continue it.

Clients of other APIs have no such state.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import time

from msgspec.structs import replace

from toolglot.dialects import STORED
from toolglot.gateway.commands import Flow, Outcome, Result, Steps, StreamEnd, WholeAnswer, Write
from toolglot.gateway.features.responses_history import (
    ExpandedRequest,
    StreamRewriter,
    add_state_members,
    expand,
    expand_self_contained,
    expand_unstored,
    mark_unstored,
    store_turn,
)
from toolglot.gateway.flow import FlowContext, await_result
from toolglot.gateway.flow import offload as offload_step
from toolglot.receipt import Receipt, ReceiptLine
from toolglot.store import Store, StoreError
from toolglot.upstream.offload import offload

log = logging.getLogger("toolglot.server")

DIALECT = STORED

STORE_TIMEOUT = 1.5
"""Seconds that an answer waits for the store."""


class ResponsesTurn:
    """Rewrites one answer on its way to the client, and stores it before the client gets the end."""

    def __init__(self, expanded: ExpandedRequest | None, store: Store | None, owner: str) -> None:
        self._expanded = expanded
        self._store = store
        self._owner = owner
        self._tap = StreamRewriter(expanded) if expanded is not None else None
        self._kept = False
        self.store_failure: str | None = None
        """Why the answer could not be stored; None if nothing failed."""

    @classmethod
    async def begin(
        cls, dialect: str, body: bytes, store: Store | None, owner: str, *, upstream_keeps_state: bool
    ) -> tuple[ResponsesTurn, bytes]:
        """Start a turn. Returns it and the request body with its history. Raises `RefusedError`."""
        if dialect != DIALECT or (store is None and upstream_keeps_state):
            return cls(None, None, owner), body
        if store is None:
            return cls(await offload(len(body), expand_unstored, body), None, owner), body
        expanded = await expand(body, store, owner, upstream_keeps_state=upstream_keeps_state)
        return cls(expanded, store, owner), expanded.body

    @classmethod
    def begin_self_contained(
        cls, body: bytes, store: Store | None, owner: str, *, upstream_keeps_state: bool
    ) -> tuple[ResponsesTurn, bytes] | None:
        """Begin a turn without reading the store. None for a request that refers to something stored."""
        if store is None and upstream_keeps_state:
            return cls(None, None, owner), body
        if store is None:
            return cls(expand_unstored(body), None, owner), body
        expanded = expand_self_contained(body, upstream_keeps_state=upstream_keeps_state)
        return None if expanded is None else (cls(expanded, store, owner), expanded.body)

    @property
    def is_active(self) -> bool:
        """Whether the answer has to be rewritten or stored."""
        return self._expanded is not None and self._expanded.changes_response

    @property
    def unstored_lines(self) -> tuple[ReceiptLine, ...]:
        """Receipt lines about an answer that is not stored."""
        return () if self._expanded is None else self._expanded.unstored_lines or ()

    def rewrite(self, body: bytes) -> bytes:
        """Rewrite a whole answer for the client. Check `stores_whole` before sending it."""
        return body if self._expanded is None else add_state_members(self._expanded, body)

    @property
    def stores_whole(self) -> bool:
        """Whether a whole answer must go through `store_whole`."""
        return self._store is not None and self._expanded is not None and self._expanded.is_stored

    async def store_whole(self, body: bytes) -> bytes:
        """Store a rewritten answer. If that fails, the returned answer reports it."""
        return body if await self._store_turn(body) else mark_unstored(body)

    def feed(self, data: bytes) -> bytes:
        """Rewrite a piece of a stream for the client. Check `needs_storing` before sending it."""
        return data if self._tap is None else self._tap.feed(data)

    @property
    def needs_storing(self) -> bool:
        """Whether the stream has ended successfully and the turn is not stored yet."""
        return self._store is not None and self._tap is not None and self._tap.response is not None and not self._kept

    async def store(self, data: bytes) -> bytes:
        """Store the turn; `data` is the piece that ends it. If storing fails, the last event reports it: the first
        event said otherwise, but clients use the response in the last one."""
        assert self._tap is not None
        assert self._tap.response is not None
        return data if await self._store_turn(self._tap.response) else self._tap.retract(data)

    def note_failure(self, receipt: Receipt) -> None:
        """Add a receipt line if the answer could not be stored. Adds it once."""
        if self.store_failure is not None:
            receipt.loss("store", "store", f"the answer could not be stored: {self.store_failure}")
            self.store_failure = None

    def close(self) -> bytes:
        return b"" if self._tap is None else self._tap.close()

    async def _store_turn(self, response: bytes) -> bool:
        """Returns False if the store failed."""
        self._kept = True
        assert self._expanded is not None
        assert self._store is not None
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                await store_turn(self._expanded, response, self._store, self._owner, now=time())
        except (StoreError, TimeoutError) as error:
            # The answer is still valid, but a client cannot continue it by its id.
            why = str(error) or f"the store has not answered for {STORE_TIMEOUT:g} seconds"
            log.warning("the response %s could not be stored: %s", self._expanded.id, why)
            self.store_failure = why
            return False
        return True


def with_responses_turn(flow: Flow, context: FlowContext, turn: ResponsesTurn) -> Flow:
    """Pass everything that goes to the client through its turn."""
    outcome: Outcome = None
    try:
        while True:
            command = flow.send(outcome)
            if type(command) is bytes:
                if command:
                    command = yield from _pass_through(context, turn, command)
            elif type(command) is Write:
                command = Write((yield from _pass_through(context, turn, command.data)))
            outcome = yield command
    except StopIteration as end:
        result: Result = end.value
    finally:
        flow.close()
    if isinstance(result, WholeAnswer):
        body = yield from offload_step(context, len(result.body), partial(turn.rewrite, result.body))
        if turn.stores_whole:
            body = yield from await_result(context, partial(turn.store_whole, body))
        return replace(result, body=body)
    if isinstance(result, StreamEnd):
        data = yield from _pass_through(context, turn, result.data)
        return replace(result, data=data if result.is_cut else data + turn.close())
    return result


def _pass_through(context: FlowContext, turn: ResponsesTurn, data: bytes) -> Steps[bytes]:
    # The last events of a long answer contain the whole answer.
    data = yield from offload_step(context, len(data), partial(turn.feed, data))
    if turn.needs_storing:
        data = yield from await_result(context, partial(turn.store, data))
    return data
