"""Rates and calendar windows, without a clock.

Rates are checked by the generic cell rate algorithm (GCRA, ITU-T I.371): one number for each limit. A minute's amount
may come at once, and is then refilled evenly.

Budgets use calendar windows in UTC. The window is a part of the counter's name, so nothing has to be reset.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MINUTE = 60.0


def next_arrival(arrival: float, now: float, amount: float, per_minute: int) -> float:
    """The theoretical arrival time after this amount. It fits if it is at most `now + MINUTE`."""
    return max(arrival, now) + amount * MINUTE / per_minute


def day_of(now: float) -> str:
    """The day as `2026-11-18`."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def month_of(now: float) -> str:
    """The month as `2026-11`."""
    return day_of(now)[:7]


def end_of(window: str) -> float:
    """When a day or a month ends."""
    if len(window) == len("2026-11-18"):
        return (datetime.fromisoformat(window).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()
    year, month = int(window[:4]), int(window[5:])
    return datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()
