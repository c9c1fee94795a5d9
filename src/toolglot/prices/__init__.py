"""Prices of models, and the cost of an answer.

Amounts are integers in nano-USD (a billionth of a US dollar), and rates are nano-USD per million tokens. An unknown
price is None, never 0.
"""

from __future__ import annotations

from toolglot.prices.amounts import format_usd, to_decimal, to_nano
from toolglot.prices.cost import ANY_TIER, BilledTokens, billed_tokens, ceiling_of, cost_of
from toolglot.prices.price import Price, PriceOverride, Rates, override_price
from toolglot.prices.table import PriceTable, load_prices

__all__ = (
    "ANY_TIER",
    "BilledTokens",
    "Price",
    "PriceOverride",
    "PriceTable",
    "Rates",
    "billed_tokens",
    "ceiling_of",
    "cost_of",
    "format_usd",
    "load_prices",
    "override_price",
    "to_decimal",
    "to_nano",
)
