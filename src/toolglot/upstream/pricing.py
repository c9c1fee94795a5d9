"""Prices of the models of configured upstreams: prices from the table, changed by the configuration."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from time import time
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from toolglot.upstream.vendors import DEMO_VENDOR, VENDORS

if TYPE_CHECKING:
    from toolglot.config.schema import PriceConfig
    from toolglot.ir import Usage
    from toolglot.prices import Price

MOST_MODELS = 1024
"""Maximum number of cached prices. There is a limit because clients choose the model names."""
_NEVER = float("inf")
_PRIVATE_NAMES = (".internal", ".lan", ".local", ".localhost")


class Payee(Struct, frozen=True):
    """The vendor that charges for an upstream's answers."""

    vendor: str | None
    """A key of `toolglot.upstream.vendors`; None if unknown."""
    is_paid: bool
    """False for local servers, recordings and the demo, whose answers have no price."""


CostOf: TypeAlias = "Callable[[Usage, Price, str | None], int | None]"


class ModelPrice(Struct, frozen=True):
    """The price of an upstream's model until its next change."""

    price: Price | None
    is_due: bool
    """True if the model costs money, even if the price is unknown."""
    until: float
    cost_of: CostOf | None = None
    """`toolglot.prices.cost_of` if there is a price. The module is loaded with the first price."""


def find_payee(vendor: str | None, base_url: str | None) -> Payee:
    """Find the vendor that charges at an address. A server without a vendor at a private address is local."""
    known = VENDORS.get(vendor or "")
    parts = urlsplit(base_url or "")
    if known is DEMO_VENDOR or (known is not None and known.is_local) or parts.scheme not in ("http", "https", ""):
        return Payee(vendor, is_paid=False)
    if known is not None:
        return Payee(vendor, is_paid=True)
    host = (parts.hostname or "").rstrip(".")
    for each in VENDORS.values():
        if not each.is_local and each.base_url is not None and urlsplit(each.base_url).hostname == host:
            return Payee(each.name, is_paid=True)
    return Payee(None, is_paid=not _is_private(host))


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_NAMES)


def find_price(
    model: str, at: float, upstream: str, vendor: str | None, configured: Mapping[str, PriceConfig]
) -> Price | None:
    """Find the price of an upstream's model: the table's price, changed by the entries for the model and for
    `upstream/model`."""
    from toolglot.prices import load_prices, override_price

    price = None if vendor is None else load_prices().find(model, vendor=vendor, at=at)
    for name in (model, f"{upstream}/{model}"):
        if (entry := configured.get(name)) is not None:
            price = override_price(price, entry.to_override(), name) or price
    return price


class Pricing:
    """Finds prices for one configuration. Loads nothing until the first price is needed."""

    def __init__(
        self,
        configured: Mapping[str, PriceConfig],
        payees: Mapping[str, Payee],
        clock: Callable[[], float] = time,
    ) -> None:
        self._configured = configured
        self._payees = payees
        self._clock = clock
        self._known: dict[tuple[str, str], ModelPrice] = {}

    def find(self, upstream: str, model: str, at: float | None = None) -> ModelPrice:
        """Return the price of an upstream's model, by the upstream's name for it. Without `at`, the price is the
        current one."""
        now = self._clock() if at is None else at
        found = self._known.get((upstream, model))
        if found is None or now >= found.until:
            if len(self._known) >= MOST_MODELS:
                self._known.clear()
            found = self._known[upstream, model] = self._look_up(upstream, model, now)
        return found

    def _look_up(self, upstream: str, model: str, at: float) -> ModelPrice:
        payee = self._payees.get(upstream, _NOBODY)
        if not payee.is_paid and not self._configured:
            return _FREE
        price = find_price(model, at, upstream, payee.vendor if payee.is_paid else None, self._configured)
        if price is None:
            return ModelPrice(None, payee.is_paid, _NEVER)
        from toolglot.prices import cost_of

        return ModelPrice(price, True, _NEVER if price.until is None else price.until, cost_of)


_NOBODY = Payee(None, is_paid=False)
_FREE = ModelPrice(None, False, _NEVER)
