"""What all requests share, whatever the configuration of the day: the gateway, the receipts, who is told of the end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from toolglot.server.gateway import Gateway
from toolglot.server.metrics import Metrics
from toolglot.server.record import Record
from toolglot.store import Store
from toolglot.translate import Exchange

KEPT_RECEIPTS = 1000


class Receipts:
    """The whole receipts of the last requests, by the request's id, ready to be written as JSON."""

    def __init__(self, size: int = KEPT_RECEIPTS) -> None:
        self._size = size
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def keep(self, record: Record, exchange: Exchange) -> None:
        receipt = exchange.receipt
        record.losses, record.notes = len(receipt.losses), len(receipt.notes)
        self._kept[record.id] = {
            "id": record.id,
            "client": exchange.client.name,
            "upstream": record.upstream,
            "upstream_dialect": exchange.upstream.name,
            "model": record.model,
            "upstream_model": record.upstream_model,
            "owner": record.key,
            "lines": [
                {"severity": line.severity, "where": line.where, "what": line.what, "why": line.why} for line in receipt
            ],
        }
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def find(self, request_id: str) -> dict[str, Any] | None:
        return self._kept.get(request_id)

    def latest(self, count: int) -> list[dict[str, Any]]:
        """The newest first."""
        return list(reversed(self._kept.values()))[:count]


class Service(Struct, kw_only=True):
    """`observers` are told of every request when it is over; `accepting` is False while the server drains."""

    gateway: Gateway
    receipts: Receipts
    metrics: Metrics
    store: Store | None = None
    observers: tuple[Callable[[Record], None], ...] = ()
    accepting: bool = True
    in_flight: int = 0
