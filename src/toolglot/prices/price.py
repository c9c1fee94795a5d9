"""The price of one model at one time."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

MAX_TOKENS = 2**63
"""A number of tokens that no input reaches."""


class Rates(Struct, frozen=True, kw_only=True, gc=False):
    """Nano-USD per million tokens, for requests of one size and service tier."""

    input: int
    output: int
    cache_read: int | None = None
    """None: the vendor lists no such rate, so these tokens cost as much as other input."""
    cache_write: int | None = None
    """The same."""
    cache_write_long: int | None = None
    """Writes with the longer lifetime. None: unknown if `cache_write` is set, else the same as other input."""
    above: int = 0
    """They apply to the whole request if its input has more tokens than this."""
    service_tier: str | None = None
    """None is the standard tier."""


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model, as found for one time."""

    vendor: str | None
    """The vendor in the table; None if the price comes from the configuration alone."""
    model: str
    """The model's name in the table or in the configuration."""
    rates: tuple[Rates, ...]
    """The rates at that time: one for each size and service tier. The first has neither."""
    ceilings: tuple[Rates, ...]
    """The rates at any hour of the day that begins then, including a change of the price."""
    until: float | None = None
    """The time of the next change (Unix seconds): an end of peak hours, or a new price."""
    source: str = ""
    date: str = ""
    """The day on which the source was read."""
    is_flat: bool = False
    """The configuration sets input and output: a service tier without rates has those of the standard tier."""
    small: int = 0
    """The largest input with the rates of small requests; derived from `rates`."""

    def __post_init__(self) -> None:
        sizes = [rates.above for rates in self.rates if rates.above]
        force_setattr(self, "small", min(sizes, default=MAX_TOKENS))

    @property
    def base(self) -> Rates:
        """Rates of small requests in the standard tier."""
        return self.rates[0]


class PriceOverride(Struct, frozen=True, kw_only=True):
    """Rates from the configuration. Each replaces the table's, for every size, hour and service tier."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_long: int | None = None


CONFIGURED = "configuration"
"""The source of a price that the configuration sets or changes."""


def override_price(price: Price | None, override: PriceOverride, model: str) -> Price | None:
    """Apply the configured rates to the table's price, if there is one. None if input or output stay unknown."""
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
