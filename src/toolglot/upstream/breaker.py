"""A circuit breaker: an upstream that fails again and again is left alone for a while. Pure: the caller has the clock.

    closed ── so many failures in a row ──▶ open ── rest is over ──▶ half open ── the probe succeeds ──▶ closed
                                             ▲                            │
                                             └─────── the probe fails ────┘

While it is half open, one call at a time goes through as a probe. Failures are those of the upstream's health: it is
not reached, breaks off, is silent, or says that it cannot. An error that says anything else (a bad request, a rate
limit, a key that is not valid) comes from an upstream that is well.
"""

from __future__ import annotations

from msgspec import Struct

from toolglot.errors import ApiError, ErrorKind
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.upstream.transport import TransportError, TransportFailure

UNWELL_TRANSPORT: frozenset[TransportFailure] = frozenset({"connect", "tls", "timeout", "reset"})
OURS: frozenset[TransportFailure] = frozenset({"pool"})
"""Failures that say nothing of the upstream, good or bad: it was not asked."""
UNWELL_API: frozenset[ErrorKind] = frozenset({"server", "overloaded", "timeout"})


def is_unwell(error: ApiError | TransportError) -> bool:
    """Does this error speak of the upstream's health?"""
    if isinstance(error, TransportError):
        return error.failure in UNWELL_TRANSPORT
    return error.kind in UNWELL_API and error.code != BAD_TOOL_CALL  # a model's mistake, and no server's


class Ticket(Struct, frozen=True, eq=False):
    """A call that was let through. A probe is known by its own ticket; all other calls have the same."""

    since: float


_NO_PROBE = Ticket(0.0)


class Breaker:
    """Times are seconds of one monotonic clock.

    Whoever was let through says how it went, with its ticket: `settle`, or `leave` when nobody will ever know, because
    the client went away. Only the probe's own ticket decides while the breaker is not closed.

    Args:
        failures: how many in a row open it; 0 never does.
        rest: how long it stays open.
    """

    def __init__(self, failures: int, rest: float) -> None:
        self._most = failures
        self._rest = rest
        self._count = 0
        self._opened: float | None = None
        self._probe: Ticket | None = None

    def enter(self, now: float) -> Ticket | None:
        """Let a call through, or not. At half open one is let through at a time: the probe."""
        if self._opened is None:
            return _NO_PROBE
        if self.wait(now) > 0:
            return None
        self._probe = ticket = Ticket(now)
        return ticket

    def wait(self, now: float) -> float:
        """Seconds until a call may go through: 0 when one may now."""
        if self._opened is None:
            return 0.0
        # A probe of which nothing is heard counts as lost after a while, or it would block the upstream for ever.
        since = self._opened if self._probe is None else self._probe.since
        return max(since + self._rest - now, 0.0)

    def answer(self, ticket: Ticket) -> None:
        """A stream has begun. A probe has shown enough with that; of any other call the end will tell (`settle`)."""
        if ticket is self._probe:
            self._count = 0
            self._opened = self._probe = None

    def leave(self, ticket: Ticket) -> None:
        """Nothing is known of how this call went; if it was the probe, the next one may be."""
        if ticket is self._probe:
            self._probe = None

    def settle(self, ticket: Ticket, error: ApiError | TransportError | None, now: float) -> None:
        """How a call went: None is a success, and so is an error of an upstream that is well."""
        if error is None and self._opened is None:
            self._count = 0
            return
        if isinstance(error, TransportError) and error.failure in OURS:
            self.leave(ticket)
            return
        if self._opened is not None and ticket is not self._probe:
            return  # a call that began before it opened; the probe decides
        if error is None or not is_unwell(error):
            self._count = 0
            self._opened = self._probe = None
            return
        self._count += 1
        if self._probe is not None or 0 < self._most <= self._count:
            self._opened, self._probe = now, None
