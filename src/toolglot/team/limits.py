"""Rates and calendar windows, without a clock.

Rates use the generic cell rate algorithm (GCRA, ITU-T I.371), which stores one number per limit. A client can use a
minute's amount at once; it then refills evenly.

Budgets use calendar windows in UTC. The counter's name includes the window, so nothing has to be reset.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MINUTE = 60.0


def next_arrival(arrival: float, now: float, amount: float, per_minute: int) -> float:
    """Return the theoretical arrival time after this amount. The amount fits if that is at most `now + MINUTE`."""
    return max(arrival, now) + amount * MINUTE / per_minute


def day_of(now: float) -> str:
    """Format the day (UTC) as `2026-11-18`."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def month_of(now: float) -> str:
    """Format the month (UTC) as `2026-11`."""
    return day_of(now)[:7]


def end_of(window: str) -> float:
    """Return the end of a day or a month (Unix seconds)."""
    if len(window) == len("2026-11-18"):
        return (datetime.fromisoformat(window).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()
    year, month = int(window[:4]), int(window[5:])
    return datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()
