"""What one configuration makes: routes, upstreams and their breakers. A reload makes a new one and swaps it whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from toolglot.config.schema import Config
from toolglot.errors import ApiError
from toolglot.routing import Router
from toolglot.server.catalogue import Catalogue
from toolglot.server.security import Guard
from toolglot.upstream.breaker import Breaker
from toolglot.upstream.transport import TransportError
from toolglot.upstream.upstream import Upstream


class Gateway:
    def __init__(self, config: Config, upstreams: Mapping[str, Upstream], router: Router) -> None:
        self.config = config
        self.upstreams = upstreams
        self.router = router
        self.guard = Guard(config.server)
        self.catalogue = Catalogue(upstreams, router)
        self._breakers = {
            name: Breaker(upstream.breaker.failures, upstream.breaker.rest) for name, upstream in upstreams.items()
        }

    def breaker(self, upstream: Upstream) -> Breaker:
        return self._breakers[upstream.name]

    def tell_breaker(self, upstream: Upstream, error: ApiError | TransportError | None) -> None:
        """One call to this upstream is over: well, or with an error."""
        self.breaker(upstream).settle(error, asyncio.get_running_loop().time())

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no log may say."""
        of_upstreams = ((upstream.key or "", *upstream.headers.values()) for upstream in self.upstreams.values())
        return (*self.config.server.keys, *(secret for each in of_upstreams for secret in each if secret))
