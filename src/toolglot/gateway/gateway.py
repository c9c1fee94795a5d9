"""The runtime objects of one configuration: router, upstreams and their breakers. A reload replaces all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolglot.config.schema import Config, TeamConfig
from toolglot.config.secrets import header_secrets, mcp_secrets, team_secrets
from toolglot.gateway.known_refusals import KnownRefusals
from toolglot.gateway.model_catalog import ModelCatalog
from toolglot.gateway.pool_targets import PooledUpstream, make_pool
from toolglot.gateway.prefix_reuse import PrefixReuse
from toolglot.gateway.recent_prefixes import RecentPrefixes
from toolglot.ir import replace
from toolglot.routing import Router
from toolglot.server.security import Guard
from toolglot.upstream.breaker import Breaker
from toolglot.upstream.exchange import KnownExchangeSettings
from toolglot.upstream.pricing import Pricing, find_payee
from toolglot.upstream.upstream import Upstream


class Gateway:
    """`before` is the gateway that this one replaces. Its knowledge about upstreams is kept."""

    def __init__(
        self,
        config: Config,
        upstreams: Mapping[str, Upstream],
        router: Router,
        before: Gateway | None = None,
        *,
        pools: Mapping[str, tuple[Upstream, ...]] = {},
    ) -> None:
        self.config = config
        self.upstreams = upstreams
        self.router = router
        self.team: TeamConfig = config.team if before is None else reload_team(before.team, config.team)
        self.guard = Guard(config.server, self.team)
        self.catalog = ModelCatalog(upstreams, router)
        self.prefixes: PrefixReuse = PrefixReuse() if before is None else before.prefixes
        self.recent_prefixes: RecentPrefixes = RecentPrefixes() if before is None else before.recent_prefixes
        self.known_refusals: KnownRefusals = KnownRefusals() if before is None else before.known_refusals
        payees = {name: find_payee(upstream.vendor, upstream.base_url) for name, upstream in upstreams.items()}
        self.pricing = Pricing(config.prices, payees)
        self.exchanges = KnownExchangeSettings()
        self.pools: Mapping[str, PooledUpstream] = {
            name: make_pool(config.upstreams[name], members, None if before is None else before.pools.get(name))
            for name, members in pools.items()
        }
        """Upstreams with several members. `upstreams` has the first member of each."""
        self._breakers = {name: _make_breaker(upstream, before) for name, upstream in upstreams.items()}

    def breaker(self, upstream: Upstream) -> Breaker:
        return self._breakers[upstream.name]

    def is_resting(self, name: str, now: float) -> bool:
        """Return whether an upstream gets no requests for a while because it has failed."""
        pool = self.pools.get(name)
        return self._breakers[name].wait(now) > 0 if pool is None else pool.is_resting(now)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of the configuration, which must not appear in logs."""
        of_upstreams: list[Iterable[str]] = [
            (upstream.key or "", *header_secrets(upstream.headers))
            for upstream in (*self.upstreams.values(), *(each for pool in self.pools.values() for each in pool.members))
        ]
        of_upstreams += [upstream.tokens.secrets for upstream in self.upstreams.values() if upstream.tokens is not None]
        of_upstreams += [mcp_secrets(self.config), team_secrets(self.team)]
        return (*self.config.server.keys, *(secret for each in of_upstreams for secret in each if secret))


def reload_team(before: TeamConfig, now: TeamConfig) -> TeamConfig:
    """The team after a reload. Credentials of operators may change; the rest is in use until a restart. A team that is
    turned off must not open the server meanwhile."""
    if not (before.enabled and now.enabled):
        return before
    return replace(before, admins=now.admins, viewers=now.viewers)


def _make_breaker(upstream: Upstream, before: Gateway | None) -> Breaker:
    known = before.upstreams.get(upstream.name) if before is not None else None
    if before is None or known is None or (known.base_url, known.breaker) != (upstream.base_url, upstream.breaker):
        return Breaker(upstream.breaker.failures, upstream.breaker.rest)
    return before.breaker(known)
