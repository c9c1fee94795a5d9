"""What all requests share, whatever the configuration of the day: the gateway, the receipts, who is told of the end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Any

from msgspec import Struct, field

from toolglot.agent.host import Host
from toolglot.receipt import Loss
from toolglot.server.gateway import Gateway
from toolglot.server.metrics import Metrics
from toolglot.server.record import Record
from toolglot.server.taping import Tapes
from toolglot.server.verdicts import Verdicts
from toolglot.store import Store
from toolglot.translate import Exchange

KEPT_RECEIPTS = 1000
KEPT_LINES = 200
KEPT_CHARACTERS = 500
"""A client decides how long a receipt gets: what is kept of it is bounded."""


class Receipts:
    """The receipts of the last requests, by the request's id, ready to be written as JSON. To any but its owner a
    receipt does not exist."""

    def __init__(self, size: int = KEPT_RECEIPTS) -> None:
        self._size = size
        self._kept: OrderedDict[str, tuple[str, dict[str, Any]]] = OrderedDict()

    def keep(self, record: Record, exchange: Exchange) -> None:
        receipt = exchange.receipt
        record.losses, record.notes = receipt.loss_count, receipt.note_count
        told = {
            "id": record.id,
            "client": exchange.client.name,
            "upstream": record.upstream,
            "upstream_dialect": exchange.upstream.name,
            "model": record.model,
            "upstream_model": record.upstream_model,
            "key": record.key,
            "lines": [_kept(line) for line in islice(receipt, KEPT_LINES)],
            "left_out": max(len(receipt) - KEPT_LINES, 0),
        }
        self._kept[record.id] = (record.owner, told)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def find(self, owner: str, request_id: str) -> dict[str, Any] | None:
        whose, told = self._kept.get(request_id, ("", None))
        return told if whose == owner else None

    def latest(self, owner: str, count: int) -> list[dict[str, Any]]:
        """Those of one owner, the newest first."""
        return list(islice((told for whose, told in reversed(self._kept.values()) if whose == owner), count))


def _kept(line: Loss) -> dict[str, str]:
    told = {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why}
    return {name: text[:KEPT_CHARACTERS] for name, text in told.items()}


class Service(Struct, kw_only=True):
    """`observers` are told of every request when it is over; `accepting` is False while the server drains."""

    gateway: Gateway
    receipts: Receipts
    metrics: Metrics
    store: Store | None = None
    verdicts: Verdicts = field(default_factory=Verdicts)
    """What was found out about models."""
    host: Host | None = None
    """The MCP servers, where some are configured."""
    tapes: Tapes | None = None
    """Where exchanges are recorded, if they are."""
    observers: tuple[Callable[[Record], None], ...] = ()
    accepting: bool = True
    in_flight: int = 0
