"""Times as text, as answers have them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

LAST_YEAR = 253402300799
"""9999-12-31T23:59:59Z: later seconds have no text."""


@lru_cache(maxsize=64)
def format_utc(seconds: int) -> str:
    """Unix seconds, up to `LAST_YEAR`, in the form `2026-11-18T09:30:00Z`. Many answers begin in one second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
