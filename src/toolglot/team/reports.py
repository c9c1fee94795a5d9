"""Public description of spend, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from toolglot.prices import to_decimal
from toolglot.team.sql import SpendRow


def describe_spend(row: SpendRow, groups: Sequence[str]) -> dict[str, Any]:
    """Describe a row with its groups. Input includes cache reads and writes."""
    written = row.cache_write_tokens + row.cache_write_long_tokens
    return {
        **{group: getattr(row, group) for group in groups},
        "requests": row.requests,
        "input_tokens": row.fresh_tokens + row.cached_tokens + written,
        "cached_tokens": row.cached_tokens,
        "cache_write_tokens": written,
        "output_tokens": row.output_tokens,
        "cost_usd": Raw(to_decimal(row.nano_usd).encode()),
        "unpriced": row.unpriced,
        "estimated": row.estimated,
    }
