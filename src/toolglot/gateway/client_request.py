"""A client's request on the callback driver: what the driver asks about it, and what is reported when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import ApiError
from toolglot.gateway.context import encode_early_failure
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.known_heads import RequestHead
from toolglot.gateway.received import ReceivedRequest, start_of_failure
from toolglot.gateway.targets import RequestTargets
from toolglot.server import headers
from toolglot.server.body_budget import BodyHold
from toolglot.server.credentials import hide, hide_in_lines
from toolglot.server.headers import header_lines
from toolglot.server.incoming import OUR_HEADERS, hide_in_record
from toolglot.server.record import Record
from toolglot.server.turn import Turn
from toolglot.upstream.offload import release

if TYPE_CHECKING:
    from toolglot.server.service import Service


class ClientRequest(Struct, eq=False):
    """It counts as one in flight until `close`."""

    _service: Service
    head: RequestHead
    record: Record
    _received: ReceivedRequest
    _targets: RequestTargets
    _turn: Turn
    _hold: BodyHold | None

    @property
    def client_dialect(self) -> Dialect:
        return self.head.client

    @property
    def is_plain(self) -> bool:
        return False

    def hash_prefix(self) -> None:
        _ = self._targets.prefix.found

    def header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        """The headers of the answer that describe the exchange."""
        fields = {**self._targets.client_headers(upstream_headers), **headers.VERSION}
        fields.pop("x-request-id", None)  # ours takes the place of the upstream's
        return header_lines(self._hide(fields))

    def receipt_headers(self, context: FlowContext) -> dict[str, str]:
        return self._hide({**self._targets.client_headers(None), **headers.VERSION})

    def _hide(self, fields: dict[str, str]) -> dict[str, str]:
        if shown := self.head.shown:
            fields |= {name: hide(value, shown) for name, value in fields.items() if name.startswith(OUR_HEADERS)}
        return fields

    def encode_early_failure(self, context: FlowContext, error: ApiError) -> bytes:
        start = start_of_failure(self._received, self.record, context.exchange)
        return encode_early_failure(self._received, start, error)

    def close(self, context: FlowContext, now: float) -> None:
        """Report the request, which is over."""
        service, record, shown, exchange = self._service, self.record, self.head.shown, context.exchange
        if self._hold is not None:
            self._hold.release()
        self._targets.note()
        self._targets.close()
        record.ended = now
        service.in_flight -= 1
        if exchange is not None:
            self._turn.note_failure(exchange.receipt)
            service.receipts.keep(record, hide_in_lines(tuple(exchange.receipt), shown))
        hide_in_record(record, shown)
        service.observe(record)
        received = self._received
        release(len(received.body), received.request.messages, *(() if exchange is None else exchange.stages))
