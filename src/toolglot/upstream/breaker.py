"""A circuit breaker: calls to an upstream that keeps failing are rejected for a while. Pure: the caller has the clock.

    closed ── N failures in a row ──▶ open ── rest elapsed ──▶ half open ── the probe succeeds ──▶ closed
                                       ▲                            │
                                       └─────── the probe fails ────┘

While the breaker is half open, it lets one call through at a time, as a probe. Only health failures count: the upstream
is unreachable, breaks off, is silent, or says that it is overloaded or down. Any other error (a bad request, a rate
limit, an invalid key) comes from a healthy upstream.
"""

from __future__ import annotations

from msgspec import Struct

from toolglot.errors import ApiError, ErrorKind
from toolglot.textcalls.settings import BAD_TOOL_CALL
from toolglot.upstream.transport import TransportError, TransportFailure

UNWELL_TRANSPORT: frozenset[TransportFailure] = frozenset({"connect", "tls", "timeout", "reset"})
OWN_FAILURES: frozenset[TransportFailure] = frozenset({"pool"})
"""Failures that do not reflect on the upstream, because it was not called."""
UNWELL_API: frozenset[ErrorKind] = frozenset({"server", "overloaded", "timeout"})


def is_health_failure(error: ApiError | TransportError) -> bool:
    """Return whether this error is about the upstream's health."""
    if isinstance(error, TransportError):
        return error.failure in UNWELL_TRANSPORT
    return error.kind in UNWELL_API and error.code != BAD_TOOL_CALL  # the model's mistake, not the server's


class Ticket(Struct, frozen=True, eq=False):
    """Permission for one call. Each probe has its own ticket; all other calls share one."""

    since: float


_NO_PROBE = Ticket(0.0)


class Breaker:
    """Times are seconds of one monotonic clock.

    Every call reports its result with its ticket: `settle`, or `leave` if the result will never be known because the
    client disconnected. While the breaker is not closed, only the probe's ticket counts.

    Args: failures: number of failures in a row that open it; 0 never opens it. rest: seconds that it stays open.
    """

    def __init__(self, failures: int, rest: float) -> None:
        self._most = failures
        self._rest = rest
        self._count = 0
        self._opened: float | None = None
        self._probe: Ticket | None = None
        self.cause = ""
        """The failure that opened it. Contains no text from the upstream: another client may have sent that request."""
        self.should_retry: bool | None = None
        """Whether clients should retry after that failure, if known."""

    def enter(self, now: float) -> Ticket | None:
        """Let a call through, or return None. When half open, lets one call through at a time: the probe."""
        if self._opened is None:
            return _NO_PROBE
        if self.wait(now) > 0:
            return None
        self._probe = ticket = Ticket(now)
        return ticket

    def wait(self, now: float) -> float:
        """Return the seconds until a call may go through; 0 if one may now."""
        if self._opened is None:
            return 0.0
        # A probe that never reports counts as lost after a while; otherwise it would block the upstream forever.
        since = self._opened if self._probe is None else self._probe.since
        return max(since + self._rest - now, 0.0)

    def may_retry(self, failure: ApiError | TransportError) -> bool:
        """Return whether a failed call may be repeated here. `retry_delay` decides when."""
        return True

    def on_stream_start(self, ticket: Ticket) -> None:
        """Handle the start of a stream. That is enough for a probe to succeed; other calls report at their end
        (`settle`)."""
        if ticket is self._probe:
            self._count = 0
            self._opened = self._probe = None

    def leave(self, ticket: Ticket) -> None:
        """The result of this call is unknown. If it was the probe, another call may become the probe."""
        if ticket is self._probe:
            self._probe = None

    def settle(self, ticket: Ticket, error: ApiError | TransportError | None, now: float) -> None:
        """Report the result of a call. None is a success, and so is an error from a healthy upstream."""
        if error is None and self._opened is None:
            self._count = 0
            return
        if isinstance(error, TransportError) and error.failure in OWN_FAILURES:
            self.leave(ticket)
            return
        if self._opened is not None and ticket is not self._probe:
            return  # the call began before the breaker opened; only the probe counts
        if error is None or not is_health_failure(error):
            self._count = 0
            self._opened = self._probe = None
            return
        self._count += 1
        if self._probe is not None or 0 < self._most <= self._count:
            self._opened, self._probe = now, None
            self._note_cause(error)

    def _note_cause(self, error: ApiError | TransportError) -> None:
        if isinstance(error, TransportError):
            self.cause, self.should_retry = str(error), False if error.not_running else None
        else:
            self.cause, self.should_retry = f"status {error.status or 500}", None
