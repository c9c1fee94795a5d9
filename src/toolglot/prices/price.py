"""The price of one model at one time."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

MAX_TOKENS = 2**63
"""Token count above the size of any input."""


class Rates(Struct, frozen=True, kw_only=True, gc=False):
    """Nano-USD per million tokens, for requests of one size and service tier."""

    input: int
    output: int
    cache_read: int | None = None
    """None if the vendor lists no such rate; these tokens then cost as much as other input."""
    cache_write: int | None = None
    """None has the same meaning as for `cache_read`."""
    cache_write_long: int | None = None
    """Rate of writes with the longer lifetime. None means unknown if `cache_write` is set, otherwise the rate of other
    input."""
    above: int = 0
    """The rates apply to the whole request if its input has more tokens than this."""
    service_tier: str | None = None
    """None means the standard tier."""


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model at a given time."""

    vendor: str | None
    """The vendor's name in the table; None if the price comes only from the configuration."""
    model: str
    """The model's name in the table or in the configuration."""
    rates: tuple[Rates, ...]
    """Rates at that time, one for each size and service tier. The first row is for the smallest size and the standard
    tier."""
    ceilings: tuple[Rates, ...]
    """All rates that apply in the 24 hours from that time, including a change of the price."""
    until: float | None = None
    """Time of the next change (Unix seconds): the start or end of peak hours, or a new price."""
    source: str = ""
    date: str = ""
    """The day when the source was read."""
    is_flat: bool = False
    """True if the configuration sets input and output, so a service tier without rates has the rates of the standard
    tier."""
    small: int = 0
    """The largest input that has the rates of small requests; derived from `rates`."""

    def __post_init__(self) -> None:
        sizes = [rates.above for rates in self.rates if rates.above]
        force_setattr(self, "small", min(sizes, default=MAX_TOKENS))

    @property
    def base(self) -> Rates:
        """The rates of small requests in the standard tier."""
        return self.rates[0]


class PriceOverride(Struct, frozen=True, kw_only=True):
    """Rates from the configuration. Each replaces the table's rate for every size, hour and service tier."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_long: int | None = None


CONFIGURED = "configuration"
"""The source of a price that the configuration sets or changes."""


def override_price(price: Price | None, override: PriceOverride, model: str) -> Price | None:
    """Apply the configured rates to the table's price, if any. Returns None if input or output stays unknown."""
    changed: dict[str, Any] = {
        name: rate for name in override.__struct_fields__ if (rate := getattr(override, name)) is not None
    }
    if price is None:
        if override.input is None or override.output is None:
            return None
        rates = (Rates(**changed),)
        return Price(vendor=None, model=model, rates=rates, ceilings=rates, source=CONFIGURED, is_flat=True)
    return replace(
        price,
        rates=tuple([replace(rates, **changed) for rates in price.rates]),
        ceilings=tuple([replace(rates, **changed) for rates in price.ceilings]),
        source=f"{CONFIGURED}; {price.source}",
        is_flat=price.is_flat or (override.input is not None and override.output is not None),
    )
