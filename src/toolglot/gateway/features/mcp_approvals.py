"""Approvals of MCP tool calls. An approval is valid once, for the request that it answers.

A client approves a tool call by sending the approval request back together with its answer, and could forge both. So
the gateway records each request that it issues, under a fingerprint of its id, the server, the tool and the arguments,
for the client's key. An approval redeems such a record. Without a record the approval is invalid: it was forged,
changed, issued to another key, or used before.

The records are in the store, which all workers share and which survives a restart. Without a working store, the process
that issued a request remembers it, and the other workers ask that process. If anything fails, the call does not run.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING

from toolglot.store import Store, StoreError

if TYPE_CHECKING:
    from toolglot.server.service import Peers

log = logging.getLogger("toolglot.server")

STORE_TIMEOUT = 1.5
"""Seconds that a request waits for the store."""
MAX_PENDING = 10_000
"""Maximum requests that a process remembers without a store. Beyond this the oldest is forgotten."""


def fingerprint(request_id: str, server: str, tool: str, arguments: str) -> str:
    """Hash the data that an approval is bound to. Arguments are compared as text; no arguments are an empty object."""
    bound = (request_id, server, tool, arguments.strip() or "{}")
    return sha256(repr(bound).encode("utf-8", "surrogatepass")).hexdigest()


class PendingApprovals:
    """Approval requests that this process remembers."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self.storing: set[asyncio.Future[None]] = set()
        """Records that the store has not written yet."""

    def add(self, owner: str, fingerprint: str) -> None:
        key = (owner, fingerprint)
        self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > MAX_PENDING:
            self._counts.popitem(last=False)

    def take(self, owner: str, fingerprint: str) -> bool:
        """Remove a request. Returns whether there was one."""
        key = (owner, fingerprint)
        left = self._counts.pop(key, 0) - 1
        if left > 0:
            self._counts[key] = left
        return left >= 0


class Approvals:
    """Issues and redeems the approval requests of one owner."""

    def __init__(self, pending: PendingApprovals, store: Store | None, peers: Peers | None, owner: str) -> None:
        self._pending = pending
        self._store = store
        self._peers = peers
        self._owner = owner

    async def issue(self, fingerprint: str) -> None:
        """Record an approval request. Call it before the client sees the request.

        There is one record, in the store or in this process: two of them would be two approvals. So a store that is
        late keeps the record that it was given, and this process remembers the request only if the store fails.
        """
        if self._store is None:
            self._pending.add(self._owner, fingerprint)
            return
        storing = asyncio.ensure_future(self._record(self._store, fingerprint))
        self._pending.storing.add(storing)
        storing.add_done_callback(self._pending.storing.discard)
        _, late = await asyncio.wait((storing,), timeout=STORE_TIMEOUT)
        if late:
            log.warning("an approval request is not stored yet: no answer in time")

    async def _record(self, store: Store, fingerprint: str) -> None:
        try:
            await store.issue_approval(self._owner, fingerprint)
        except StoreError as error:
            log.warning("an approval request could not be stored: %s", error)
            self._pending.add(self._owner, fingerprint)

    async def redeem(self, fingerprint: str) -> bool:
        """Use up an approval. Returns whether it is valid."""
        if self._store is not None:
            try:
                async with asyncio.timeout(STORE_TIMEOUT):
                    if await self._store.redeem_approval(self._owner, fingerprint):
                        return True
            except (StoreError, TimeoutError) as error:
                log.warning("an approval could not be looked up: %s", error or "no answer in time")
        if self._pending.take(self._owner, fingerprint):
            return True
        return self._peers is not None and await self._peers.redeem_approval(self._owner, fingerprint)
