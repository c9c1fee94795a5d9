"""A circuit breaker: an upstream that fails again and again is left alone for a while. Pure: the caller has the clock.

    closed ── so many failures in a row ──▶ open ── rest is over ──▶ half open ── the probe succeeds ──▶ closed
                                             ▲                            │
                                             └─────── the probe fails ────┘

While it is half open, one call at a time goes through as a probe. Failures are those of the upstream's health: it is
not reached, breaks off, is silent, or says that it cannot. An error that says anything else (a bad request, a rate
limit, a key that is not valid) comes from an upstream that is well.
"""

from __future__ import annotations

from toolglot.errors import ApiError, ErrorKind
from toolglot.upstream.transport import TransportError, TransportFailure

UNWELL_TRANSPORT: frozenset[TransportFailure] = frozenset({"connect", "tls", "timeout", "reset"})
UNWELL_API: frozenset[ErrorKind] = frozenset({"server", "overloaded", "timeout"})


def is_unwell(error: ApiError | TransportError) -> bool:
    """Does this error speak of the upstream's health?"""
    return error.kind in UNWELL_API if isinstance(error, ApiError) else error.failure in UNWELL_TRANSPORT


class Breaker:
    """Times are seconds of one monotonic clock.

    Whoever was allowed through says how it went: `succeeded`, `failed`, or `left` when the client went away before
    anybody could know. `settle` picks one by the error.

    Args:
        failures: how many in a row open it; 0 never does.
        rest: how long it stays open.
    """

    def __init__(self, failures: int, rest: float) -> None:
        self._most = failures
        self._rest = rest
        self._count = 0
        self._opened: float | None = None
        self._probe: float | None = None

    def allows(self, now: float) -> bool:
        """May a call go to the upstream? At half open the answer is yes once: that call is the probe."""
        if self._opened is None:
            return True
        if self.wait(now) > 0:
            return False
        self._probe = now
        return True

    def wait(self, now: float) -> float:
        """Seconds until a call may go through: 0 when one may now."""
        if self._opened is None:
            return 0.0
        # A probe of which nothing is heard counts as lost after a while, or it would block the upstream for ever.
        since = self._opened if self._probe is None else self._probe
        return max(since + self._rest - now, 0.0)

    def state(self, now: float) -> str:
        """`closed`, `open` or `half_open`, for people and metrics."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._probe is not None or self.wait(now) <= 0 else "open"

    def succeeded(self) -> None:
        if self._opened is not None and self._probe is None:
            return  # a call that began before it opened; the probe decides
        self._count = 0
        self._opened = self._probe = None

    def failed(self, now: float) -> None:
        if self._opened is not None and self._probe is None:
            return
        self._count += 1
        if self._probe is not None or 0 < self._most <= self._count:
            self._opened, self._probe = now, None

    def left(self) -> None:
        """The client went away: nothing is known, and the next call may be the probe."""
        self._probe = None

    def settle(self, error: ApiError | TransportError | None, now: float) -> None:
        """How a call went: None is a success, and so is an error of an upstream that is well."""
        if error is not None and is_unwell(error):
            self.failed(now)
        else:
            self.succeeded()
