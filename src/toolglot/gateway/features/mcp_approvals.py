"""Approval requests that the gateway has issued: an approval counts once, for the request that it answers alone.

A client says yes to a tool call by sending the request for it back beside its answer, and anybody can write both. So
each request is noted when it is issued, under a fingerprint of its id, the server, the tool and the arguments, for the
key that it was issued to. An approval redeems such a note. One without a note is no approval: it was forged, changed,
another key's, or has been used.

Notes are in the store, which all workers and the next start of the gateway share. Without a store, or while it is
broken, the process that issued a request remembers it, and the other workers ask for it. Whatever fails, the call is
not run.
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
"""Requests that a process remembers without a store; beyond them the oldest is forgotten."""


def fingerprint(request_id: str, server: str, tool: str, arguments: str) -> str:
    """What an approval is bound to. Arguments are compared as text; none at all are an empty object."""
    bound = (request_id, server, tool, arguments.strip() or "{}")
    return sha256(repr(bound).encode("utf-8", "surrogatepass")).hexdigest()


class PendingApprovals:
    """Requests that this process remembers."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()

    def add(self, owner: str, fingerprint: str) -> None:
        key = (owner, fingerprint)
        self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > MAX_PENDING:
            self._counts.popitem(last=False)

    def take(self, owner: str, fingerprint: str) -> bool:
        """Whether there was one; there is one less then."""
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
        """To be called before the client sees the request."""
        if self._store is not None:
            try:
                async with asyncio.timeout(STORE_TIMEOUT):
                    await self._store.issue_approval(self._owner, fingerprint)
                return
            except (StoreError, TimeoutError) as error:
                log.warning("an approval request could not be stored: %s", error or "no answer in time")
        self._pending.add(self._owner, fingerprint)

    async def redeem(self, fingerprint: str) -> bool:
        """Whether this approval may be acted on. It may be once."""
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
