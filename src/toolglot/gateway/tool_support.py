"""A cache of the models that support tools. The store has the permanent copy.

A failure of the store is not an error: the knowledge then lasts until the gateway ends. Entries of another process
(`toolglot doctor`) are seen within a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from time import time

from toolglot.store import Store, StoreError, ToolVerdict
from toolglot.upstream.tool_mode import REFUSAL_TTL, KnownToolMode
from toolglot.upstream.upstream import Upstream

log = logging.getLogger("toolglot.server")

MAX_AGE = 60.0
"""Seconds after which the store is read again."""
STORE_TIMEOUT = 0.5
"""Seconds that a request waits for the store."""
MAX_MODELS = 1000


class ToolSupport:
    """Known tool support, by the upstream's address and its name of the model."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[float, ToolVerdict | None]] = OrderedDict()

    async def look_up(self, upstream: Upstream, model: str, store: Store | None) -> KnownToolMode | None:
        """Look up a model in the cache or the store; None if it is unknown."""
        if store is not None and self.is_outdated(upstream, model):
            key, now = (upstream.base_url, model), time()
            _, verdict = self._known.get(key, (0.0, None))
            self._remember(key, now, await self._read(store, upstream, model) or verdict)
        return self.get_known(upstream, model)

    def is_outdated(self, upstream: Upstream, model: str) -> bool:
        """Return whether the store may have newer knowledge about this model."""
        # All models of such a vendor support tools: the store has only refusals seen here.
        if upstream.native_tools:
            return False
        known = self._known.get((upstream.base_url, model))
        return known is None or time() - known[0] >= MAX_AGE

    def get_known(self, upstream: Upstream, model: str) -> KnownToolMode | None:
        """Look up a model in the cache only; None if it is unknown."""
        _, verdict = self._known.get((upstream.base_url, model), (0.0, None))
        return None if verdict is None or verdict.until <= time() else verdict.tools

    async def store_refusal(self, upstream: Upstream, model: str, store: Store | None) -> None:
        """Remember that this model refused tools."""
        now = time()
        verdict = ToolVerdict(upstream=upstream.base_url, model=model, tools="text", found=now, until=now + REFUSAL_TTL)
        self._remember((upstream.base_url, model), now, verdict)
        if store is None:
            return
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                await store.remember(verdict)
        except (StoreError, TimeoutError) as error:
            log.warning(
                "it could not be stored that %s does not support tools: %s", upstream.name, error or "no answer in time"
            )

    async def _read(self, store: Store, upstream: Upstream, model: str) -> ToolVerdict | None:
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                return await store.verdict(upstream.base_url, model)
        except (StoreError, TimeoutError) as error:
            log.debug("the known tool support of the models of %s could not be read: %s", upstream.name, error)
            return None

    def _remember(self, key: tuple[str, str], now: float, verdict: ToolVerdict | None) -> None:
        self._known[key] = (now, verdict)
        self._known.move_to_end(key)
        while len(self._known) > MAX_MODELS:
            self._known.popitem(last=False)
