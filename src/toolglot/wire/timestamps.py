"""Format timestamps of answers as text."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

LAST_YEAR = 253402300799
"""9999-12-31T23:59:59Z, the last second that `format_utc` accepts."""


@lru_cache(maxsize=64)
def format_utc(seconds: int) -> str:
    """Format Unix seconds like `2026-11-18T09:30:00Z`. Cached, because many answers have the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
