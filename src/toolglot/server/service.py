"""What all requests share, whatever the configuration of the day: the gateway, the receipts, who is told of the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from math import inf
from time import monotonic
from typing import Any, Protocol

from msgspec import Struct, field

from toolglot.agent.host import McpHost
from toolglot.gateway.features.mcp_approvals import PendingApprovals
from toolglot.gateway.features.recording import ExchangeRecorder
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.sweep import DriverSweep
from toolglot.gateway.tool_support import ToolSupport
from toolglot.receipt import Loss
from toolglot.server.body_budget import BodyBudget
from toolglot.server.log_throttle import LogThrottle
from toolglot.server.metrics import Metrics, Snapshot
from toolglot.store import Store

KEPT_RECEIPTS = 1000
KEPT_LINES = 200
KEPT_CHARACTERS = 500
"""A client decides how long a receipt gets: what is kept of it is bounded."""


DatedReceipt = tuple[float, dict[str, Any]]
"""A receipt, and when it was kept: by the machine's clock, which other processes have as well."""


class RecentReceipts:
    """The receipts of the last requests, ready to be written as JSON. To any but its owner a receipt does not exist."""

    def __init__(self, size: int = KEPT_RECEIPTS) -> None:
        # Most are never asked for: what is told of one is looked for, and put together, when somebody does.
        self._kept: deque[RequestRecord] = deque(maxlen=size)

    def keep(self, record: RequestRecord, lines: tuple[Loss, ...]) -> None:
        """The lines of a request's receipt, in place of those that were kept of it before."""
        if record.receipt is None:
            self._kept.append(record)
        if lines:
            record.losses = sum([line.severity == "loss" for line in lines])
            record.notes = len(lines) - record.losses
        record.receipt = (monotonic(), lines[:KEPT_LINES], len(lines))

    def find(self, owner: str, request_id: str) -> dict[str, Any] | None:
        return next((_encode_receipt(record)[1] for record in self._of(owner) if record.id == request_id), None)

    def latest(self, owner: str, count: int) -> list[dict[str, Any]]:
        """Those of one owner, the newest first."""
        return [told for _, told in self.latest_dated(owner, count)]

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


def _encode_line(line: Loss) -> dict[str, str]:
    told = {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why}
    return {name: text[:KEPT_CHARACTERS] for name, text in told.items()}


class Peers(Protocol):
    """The other processes that serve at the same address. One that is silent for too long is left out."""

    async def snapshots(self, own: Snapshot) -> list[Snapshot]:
        """What all have counted, those that have gone and this one included. Raises `TimeoutError`: less than all would
        look as if they had begun anew."""
        ...

    async def receipt(self, owner: str, request_id: str) -> dict[str, Any] | None: ...

    async def receipts(self, owner: str, count: int) -> list[DatedReceipt]:
        """So many of each, in no order."""
        ...

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        """Whether one of them remembers this approval request; it does not any more then."""
        ...


class Service(Struct, kw_only=True):
    """`observers` are told of every request when it is over; `accepting` is False while the server drains."""

    gateway: Gateway
    receipts: RecentReceipts
    metrics: Metrics
    store: Store | None = None
    store_failure: str | None = None
    """Why there is no store although there should be one."""
    tool_support: ToolSupport = field(default_factory=ToolSupport)
    """What was found out about models."""
    host: McpHost | None = None
    """The MCP servers, where some are configured."""
    approvals: PendingApprovals = field(default_factory=PendingApprovals)
    """Approval requests that no store has noted."""
    recorder: ExchangeRecorder | None = None
    """Where exchanges are recorded, if they are."""
    peers: Peers | None = None
    """The other workers, where there are some."""
    sweep: DriverSweep = field(default_factory=lambda: DriverSweep(lambda: inf))
    """The answers that are driven by callbacks."""
    throttle: LogThrottle = field(default_factory=LogThrottle)
    """Bounds the log lines of refused requests."""
    observers: tuple[Callable[[RequestRecord], None], ...] = ()
    is_accepting: bool = True
    in_flight: int = 0
    bodies: BodyBudget = field(default_factory=lambda: BodyBudget(lambda: 2**63))
    """Bounds the memory of request bodies."""

    def __post_init__(self) -> None:
        self.bodies = BodyBudget(lambda: self.gateway.config.limits.bodies)

    def observe(self, record: RequestRecord) -> None:
        """Tell the observers of a request that is over."""
        for observe in self.observers:
            try:
                observe(record)
            except OSError:  # a log that cannot be written
                continue

    def snapshot(self, now: float) -> Snapshot:
        """What was counted here, and how things are at this time of the loop's clock."""
        gateway = self.gateway
        resting = {name: gateway.breaker(upstream).wait(now) > 0 for name, upstream in gateway.upstreams.items()}
        up = {} if self.host is None else {state.name: state.state == "ready" for state in self.host.states()}
        return self.metrics.snapshot(self.in_flight, resting, up)
