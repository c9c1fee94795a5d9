"""A limit on log lines about refused requests.

Anyone who reaches the port can send thousands of requests per second that are refused, and one line for each would fill
the disk. The first ones are logged, then a few per second; the others are counted by status and summed up in one line.
Admitted requests are not throttled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

log = logging.getLogger("toolglot.server")

BURST_LINES = 50
"""Lines that are written without a limit on their rate."""
LINES_PER_SECOND = 2.0
"""Lines per second after the burst."""
REPORT_SECONDS = 10.0
"""Seconds between two summary lines."""


class LogThrottle:
    """A token bucket for the lines of refused requests, shared by all connections of a process."""

    def __init__(self, level: int = logging.WARNING, clock: Callable[[], float] = monotonic) -> None:
        self._level = level
        self._clock = clock
        self._tokens = float(BURST_LINES)
        self._updated = clock()
        self._left_out = Counter[int]()
        self._report_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def allows(self, status: int) -> bool:
        """Return whether to write the line of a request that was refused with this status."""
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._updated) * LINES_PER_SECOND, BURST_LINES)
        self._updated = now
        if self._left_out and now >= self._report_at:
            self.report()
        if self._tokens >= 1:
            self._tokens -= 1
            return True
        if not self._left_out:
            self._report_at = now + REPORT_SECONDS
            with suppress(RuntimeError):  # without an event loop the next refusal reports
                self._timer = asyncio.get_running_loop().call_later(REPORT_SECONDS, self.report)
        self._left_out[status] += 1
        return False

    def report(self) -> None:
        """Log a summary of the lines that were left out, if any."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left_out, self._left_out = self._left_out, Counter()
        if left_out:
            each = ", ".join(f"{count} with status {status}" for status, count in sorted(left_out.items()))
            log.log(self._level, "%d refused requests were not logged one by one: %s", left_out.total(), each)

    def log_refusal(self, status: int, message: str) -> None:
        """Log a request that was refused before it was parsed."""
        if log.isEnabledFor(logging.INFO) and self.allows(status):
            log.info("refused a request: %d %s", status, message)
