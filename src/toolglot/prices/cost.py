"""The cost of an answer, from its usage and the price of its model."""

from __future__ import annotations

from typing import NamedTuple

from toolglot.ir import Usage
from toolglot.prices.price import Price, Rates

_MILLION = 1_000_000

ANY_TIER = "any"
"""Service tier for `ceiling_of` if the tier is unknown."""

_STANDARD = frozenset({None, "", "auto", "default", "on_demand", "standard"})
"""Names of the standard service tier. `on_demand` is Groq's."""
_SAME_TIER = {"fast": "priority"}
"""OpenAI's later name of a tier -> its name in the table."""


class BilledTokens(NamedTuple):
    """Token counts of an answer that do not overlap."""

    fresh: int
    """Input tokens that are neither read from the cache nor written to it."""
    read: int
    written: int
    """Tokens written to the cache with the shorter lifetime."""
    written_long: int
    output: int

    @property
    def input(self) -> int:
        return self.fresh + self.read + self.written + self.written_long


def billed_tokens(usage: Usage) -> BilledTokens | None:
    """Split the counts into five that do not overlap. None if input or output is unknown."""
    tokens, output = usage.input_tokens, usage.output_tokens
    return None if tokens is None or output is None else BilledTokens(*_split_input(usage, tokens), output)


def _split_input(usage: Usage, tokens: int) -> tuple[int, int, int, int]:
    """Split the input into fresh tokens, cache reads, short cache writes and long cache writes.

    In `Usage`, the input includes cache reads and writes, and the writes include the long ones.
    """
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    if not (read or written):
        return tokens, 0, 0, 0
    long = min(usage.cache_write_long_tokens or 0, written)
    return max(0, tokens - read - written), read, written - long, long


def cost_of(usage: Usage, price: Price, service_tier: str | None = None) -> int | None:
    """Return the cost of one model call in nano-USD, rounded once. `service_tier` is the tier that the answer reports.

    None if the cost is unknown: the usage lacks input or output, or the price has no rate for a kind of tokens in it.
    """
    tokens, output = usage.input_tokens, usage.output_tokens
    if tokens is None or output is None:
        return None
    fresh, read, written, long = _split_input(usage, tokens)
    size = fresh + read + written + long
    is_usual = size <= price.small and service_tier in _STANDARD
    rates = price.base if is_usual else _applicable(price, size, service_tier)
    if rates is None:
        return None
    amount = fresh * rates.input + output * rates.output
    if read:
        amount += read * (rates.input if rates.cache_read is None else rates.cache_read)
    if written:
        amount += written * (rates.input if rates.cache_write is None else rates.cache_write)
    if long:
        rate = _long_rate(rates)
        if rate is None:
            return None
        amount += long * rate
    return (amount + _MILLION // 2) // _MILLION


def ceiling_of(price: Price, *, input_tokens: int, output_tokens: int, service_tier: str | None = ANY_TIER) -> int:
    """Return an upper bound in nano-USD for the cost of a request with at most this many tokens.

    It covers every hour, and input that is written to the cache completely. It covers every service tier, or the
    standard tier and `service_tier`.
    """
    tier = _tier(service_tier)
    rates = [each for each in price.ceilings if each.above < input_tokens or not each.above]
    if service_tier != ANY_TIER:
        rates = [each for each in rates if each.service_tier in (None, tier)]
    before = max([_dearest_input(each) for each in rates], default=0)
    after = max([each.output for each in rates], default=0)
    return -(-(input_tokens * before + output_tokens * after) // _MILLION)


def _tier(service_tier: str | None) -> str | None:
    return None if service_tier in _STANDARD else _SAME_TIER.get(service_tier or "", service_tier)


def _applicable(price: Price, tokens: int, service_tier: str | None) -> Rates | None:
    """Return the rates for this size and service tier; None if they are unknown.

    The standard tier defines the sizes. Another tier without a rate for a size has no known price there.
    """
    tier, above = _tier(service_tier), 0
    for each in price.rates:
        if each.service_tier is None and above < each.above < tokens:
            above = each.above
    standard: Rates | None = None
    for each in price.rates:
        if each.above == above:
            if each.service_tier == tier:
                return each
            standard = each if each.service_tier is None else standard
    return standard if price.is_flat else None


def _long_rate(rates: Rates) -> int | None:
    if rates.cache_write_long is None and rates.cache_write is None:
        return rates.input
    return rates.cache_write_long


def _dearest_input(rates: Rates) -> int:
    return max(rates.input, rates.cache_read or 0, rates.cache_write or 0, rates.cache_write_long or 0)
