"""State that all requests of a process share, across reloads: the gateway, recent receipts, observers, limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from toolglot.agent.host import McpHost
from toolglot.gateway.features.mcp_approvals import PendingApprovals
from toolglot.gateway.features.mcp_rounds import RecentFailures
from toolglot.gateway.features.recording import ExchangeRecorder
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.sweep import DriverSweep
from toolglot.gateway.tool_support import ToolSupport
from toolglot.receipt import ReceiptLine
from toolglot.server.body_budget import BodyBudget
from toolglot.server.log_throttle import LogThrottle
from toolglot.server.metrics import Metrics, PoolMember, Snapshot
from toolglot.store import Store

if TYPE_CHECKING:
    from toolglot.team.directory import KeyDirectory
    from toolglot.team.service import Team

KEPT_RECEIPTS = 1000
KEPT_LINES = 200
KEPT_CHARACTERS = 500
"""Limits, because clients control how long a receipt gets."""


DatedReceipt = tuple[float, dict[str, Any]]
"""A receipt, and its time by the machine's monotonic clock, which all processes share."""


class RecentReceipts:
    """Receipts of the last requests. Only its owner can find a receipt."""

    def __init__(self, size: int = KEPT_RECEIPTS) -> None:
        # Most receipts are never read: they are encoded on demand.
        self._kept: deque[RequestRecord] = deque(maxlen=size)

    def keep(self, record: RequestRecord, lines: tuple[ReceiptLine, ...]) -> None:
        """Keep the lines of a request's receipt. They replace earlier ones of the same request."""
        if record.receipt is None:
            self._kept.append(record)
        if lines:
            record.losses = sum([line.severity == "loss" for line in lines])
            record.notes = len(lines) - record.losses
        record.receipt = (monotonic(), lines[:KEPT_LINES], len(lines))

    def find(self, owner: str, request_id: str) -> dict[str, Any] | None:
        return next((_encode_receipt(record)[1] for record in self._of(owner) if record.id == request_id), None)

    def latest(self, owner: str, count: int) -> list[dict[str, Any]]:
        """Return the receipts of one owner, the newest first."""
        return [receipt for _, receipt in self.latest_dated(owner, count)]

    def latest_dated(self, owner: str, count: int) -> list[DatedReceipt]:
        return [_encode_receipt(record) for record in islice(self._of(owner), count)]

    def _of(self, owner: str) -> Iterator[RequestRecord]:
        return (record for record in reversed(self._kept) if record.owner == owner)


def _encode_receipt(record: RequestRecord) -> DatedReceipt:
    kept, lines, count = record.receipt or (0.0, (), 0)
    return kept, {
        "id": record.id,
        "client": record.client,
        "upstream": record.upstream,
        "upstream_dialect": record.upstream_dialect,
        "model": record.model,
        "upstream_model": record.upstream_model,
        "key": record.key,
        "lines": [_encode_line(line) for line in lines],
        "left_out": max(count - KEPT_LINES, 0),
    }


def _encode_line(line: ReceiptLine) -> dict[str, str]:
    fields = {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why}
    return {name: text[:KEPT_CHARACTERS] for name, text in fields.items()}


class Peers(Protocol):
    """The other processes that serve the same address. A process that does not reply in time is left out."""

    async def snapshots(self, own: Snapshot) -> list[Snapshot]:
        """Return the snapshots of all processes, including this one and those that have ended. Raises `TimeoutError`:
        incomplete counts would look like a counter reset."""
        ...

    async def receipt(self, owner: str, request_id: str) -> dict[str, Any] | None: ...

    async def receipts(self, owner: str, count: int) -> list[DatedReceipt]:
        """Return up to `count` receipts of each process, unordered."""
        ...

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        """Return whether a process knew this approval request. It then forgets it."""
        ...


class Service(Struct, kw_only=True):
    """The running gateway service. `observers` get the record of each finished request; `is_accepting` is False while
    the server drains."""

    gateway: Gateway
    receipts: RecentReceipts
    metrics: Metrics
    store: Store | None = None
    store_failure: str | None = None
    """Why the configured store could not be opened."""
    tool_support: ToolSupport = field(default_factory=ToolSupport)
    """Which models support tools."""
    host: McpHost | None = None
    """The MCP servers; None if none are configured."""
    approvals: PendingApprovals = field(default_factory=PendingApprovals)
    recent_failures: RecentFailures = field(default_factory=RecentFailures)
    """Approval requests that are not in the store."""
    team: Team | None = None
    """Keys of a team; None if there are none."""
    recorder: ExchangeRecorder | None = None
    """Records exchanges, if that is configured."""
    peers: Peers | None = None
    """The other workers, if there are several."""
    sweep: DriverSweep = field(default_factory=lambda: DriverSweep(lambda: inf))
    """The shared timer of all drivers."""
    throttle: LogThrottle = field(default_factory=LogThrottle)
    """Limits the log lines of refused requests."""
    observers: tuple[Callable[[RequestRecord], None], ...] = ()
    is_accepting: bool = True
    in_flight: int = 0
    bodies: BodyBudget = field(default_factory=lambda: BodyBudget(lambda: 2**63))
    """Limits the memory of request bodies."""

    def __post_init__(self) -> None:
        self.bodies = BodyBudget(lambda: self.gateway.config.limits.bodies)

    @property
    def keys(self) -> KeyDirectory | None:
        return None if self.team is None else self.team.keys

    def observe(self, record: RequestRecord) -> None:
        """Pass the record of a finished request to the observers."""
        for observe in self.observers:
            try:
                observe(record)
            except OSError:  # the log cannot be written, so this cannot be logged
                continue

    def snapshot(self, now: float) -> Snapshot:
        """Return the metrics of this process. `now` is the time of the event loop's clock."""
        gateway = self.gateway
        resting = {name: gateway.is_resting(name, now) for name in gateway.upstreams}
        up = {} if self.host is None else {state.name: state.state == "ready" for state in self.host.states()}
        members = [
            PoolMember(name, member.name, pool.state.in_flight[number], pool.state.is_cooling(number, now))
            for name, pool in gateway.pools.items()
            for number, member in enumerate(pool.state.members)
        ]
        return self.metrics.snapshot(self.in_flight, resting, up, members)
