"""A client's request on the callback driver: what the driver asks about it, and what is reported when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import ApiError
from toolglot.gateway.context import encode_early_failure
from toolglot.gateway.features.responses_turn import ResponsesTurn
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.known_heads import RequestHead
from toolglot.gateway.received import ReceivedRequest, start_of_failure
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.targets import RequestTargets
from toolglot.server import headers
from toolglot.server.asgi_request import OUR_HEADERS, hide_in_record
from toolglot.server.body_budget import BodyHold
from toolglot.server.credentials import hide, hide_in_lines
from toolglot.server.headers import encode_lines

if TYPE_CHECKING:
    from toolglot.server.service import Service


MOST_ANSWER_LINES = 64
"""Clients choose the names of models, and how long receipts get."""


class ClientRequest(Struct, eq=False):
    """It counts as one in flight until `close`."""

    _service: Service
    head: RequestHead
    record: RequestRecord
    _received: ReceivedRequest
    _targets: RequestTargets
    _turn: ResponsesTurn | None
    _hold: BodyHold | None

    @property
    def client_dialect(self) -> Dialect:
        return self.head.client

    def hash_prefix(self) -> None:
        _ = self._targets.prefix.found

    def header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        """The headers of the answer that describe the exchange."""
        exchange, record = context.exchange, self.record
        if exchange is None or upstream_headers is None or not headers.has_none_for_client(exchange, upstream_headers):
            return self._new_header_lines(context, upstream_headers)
        receipt = exchange.receipt
        losses = receipt.loss_count
        first_losses = headers.first_losses(receipt) if losses else ()
        key = (record.upstream, record.upstream_model, (losses, receipt.note_count), first_losses)
        known = self.head.answer_lines
        lines = known.get(key)
        if lines is None:
            if len(known) >= MOST_ANSWER_LINES:
                known.clear()
            lines = known[key] = self._new_header_lines(context, upstream_headers)
        return lines

    def _new_header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        fields = {**self._targets.client_headers(context, upstream_headers), **headers.VERSION}
        fields.pop("x-request-id", None)  # ours takes the place of the upstream's
        return encode_lines(self._hide(fields))

    def receipt_headers(self, context: FlowContext) -> dict[str, str]:
        return self._hide({**self._targets.client_headers(context, None), **headers.VERSION})

    def _hide(self, fields: dict[str, str]) -> dict[str, str]:
        if shown := self.head.credentials:
            fields |= {name: hide(value, shown) for name, value in fields.items() if name.startswith(OUR_HEADERS)}
        return fields

    def encode_early_failure(self, context: FlowContext, error: ApiError) -> bytes:
        start = start_of_failure(self._received, self.record, context.exchange)
        return encode_early_failure(self._received, start, error)

    def close(self, context: FlowContext, now: float) -> None:
        """Report the request, which is over."""
        service, record, shown, exchange = self._service, self.record, self.head.credentials, context.exchange
        if self._hold is not None:
            self._hold.release()
        self._targets.note(context)
        self._targets.close()
        record.ended = now
        service.in_flight -= 1
        if exchange is not None:
            if self._turn is not None:
                self._turn.note_failure(exchange.receipt)
            lines = tuple(exchange.receipt) if exchange.receipt else ()
            service.receipts.keep(record, hide_in_lines(lines, shown) if shown and lines else lines)
        if shown:
            hide_in_record(record, shown)
        service.observe(record)
