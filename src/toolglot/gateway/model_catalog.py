"""The models that clients can use: those in the configuration, and those that upstreams list.

An upstream whose configuration names its models is not asked. The others are asked when a client requests the list;
their lists are cached for a while. An upstream that does not answer in time is left out this time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from toolglot.errors import DecodeError
from toolglot.ir import replace
from toolglot.models import LATEST, ModelInfo
from toolglot.routing import DEMO, Router
from toolglot.upstream.transport import MAX_LIST_BYTES, Timeouts, TransportError, fetch
from toolglot.upstream.upstream import Upstream

UPSTREAM_TIMEOUT = 5.0
"""Seconds that an upstream has for its list."""
LIST_LIFETIME = 300.0
"""Seconds for which a list is valid. After a failure the upstream is asked again after `RETRY_SECONDS`."""
RETRY_SECONDS = 30.0


class ModelCatalog:
    def __init__(self, upstreams: Mapping[str, Upstream], router: Router) -> None:
        self._upstreams = [upstream for upstream in upstreams.values() if not upstream.models and upstream.name != DEMO]
        self._router = router
        self._lists: dict[str, tuple[float, list[ModelInfo]]] = {}
        self._locks = {upstream.name: asyncio.Lock() for upstream in self._upstreams}

    async def models(self) -> list[ModelInfo]:
        """Return all models, each under a name that reaches it. The configured ones come first."""
        found = {name: self._configured(name) for name in self._router.names()}
        lists = await asyncio.gather(*(self._list(upstream) for upstream in self._upstreams))
        for upstream, models in zip(self._upstreams, lists, strict=True):
            for model in models:
                name = self.client_name(upstream, model.name)
                found.setdefault(name, replace(model, name=name, owner=upstream.name))
        return list(found.values())

    def model(self, name: str) -> ModelInfo:
        """Describe one model without a request to its upstream. Raises `UnknownModelError`."""
        known, target = self._configured(name), self._router.resolve(name)[0]
        _, models = self._lists.get(target.upstream, (0.0, []))
        listed = next((model for model in models if model.name in (target.model, target.model + LATEST)), None)
        if listed is None:
            return known
        return replace(
            listed,
            name=name,
            owner=known.owner,
            context_window=known.context_window or listed.context_window,
            max_output_tokens=known.max_output_tokens or listed.max_output_tokens,
            inputs=known.inputs or listed.inputs,
            thinking=listed.thinking if known.thinking is None else known.thinking,
        )

    def _configured(self, name: str) -> ModelInfo:
        """Describe a model by the configuration. Its input types and reasoning are given only if the configuration has
        them: a dialect that supports images does not imply that the model does."""
        target = self._router.resolve(name)[0]
        reads = target.quirks.get("media_in_user")
        return ModelInfo(
            name=name,
            owner=target.upstream,
            context_window=target.context_window,
            max_output_tokens=target.max_output_tokens,
            inputs=frozenset() if reads is None else frozenset({"text", *reads}),
            thinking=bool(target.quirks["efforts"]) if "efforts" in target.quirks else None,
        )

    def client_name(self, upstream: Upstream, model: str) -> str:
        """Return the model's own name if it reaches this model at this upstream; otherwise with the upstream as a
        prefix."""
        target = self._router.claim(model)
        leads_there = target is not None and (target.upstream, target.model) == (upstream.name, model)
        return model if leads_there else f"{upstream.name}/{model}"

    async def _list(self, upstream: Upstream) -> list[ModelInfo]:
        if upstream.listed:
            return [ModelInfo(name=name) for name in upstream.listed]
        async with self._locks[upstream.name]:
            now = asyncio.get_running_loop().time()
            until, models = self._lists.get(upstream.name, (now, []))
            if until <= now:
                listed = await _fetch_models(upstream)
                until, models = (now + RETRY_SECONDS, models) if listed is None else (now + LIST_LIFETIME, listed)
                self._lists[upstream.name] = until, models
            return models


async def _fetch_models(upstream: Upstream) -> list[ModelInfo] | None:
    """Fetch the upstream's list; None if it has none, or it cannot be read."""
    call = upstream.call(upstream.dialect.listing.path, headers={"accept": "application/json"}, method="GET")
    call = replace(
        call, timeouts=Timeouts(connect=UPSTREAM_TIMEOUT, first_byte=UPSTREAM_TIMEOUT, idle=UPSTREAM_TIMEOUT)
    )
    try:
        async with asyncio.timeout(UPSTREAM_TIMEOUT):
            answer = await fetch(upstream.transport, call, MAX_LIST_BYTES)
        return upstream.dialect.listing.decode_models(answer.body) if answer.status == 200 else None
    except (TransportError, TimeoutError, DecodeError):
        return None
