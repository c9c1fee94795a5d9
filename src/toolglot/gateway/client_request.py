"""A client's request on its connection: writes its answer in HTTP/1.1, and reports the request when it has ended."""

from __future__ import annotations

from collections.abc import Mapping

from toolglot.errors import ApiError, LossError
from toolglot.events import Start
from toolglot.gateway.client_answer import ClientAnswer
from toolglot.gateway.client_connection import ClientConnection
from toolglot.gateway.commands import StreamEnd, WholeAnswer
from toolglot.gateway.context import encode_early_failure
from toolglot.gateway.errors import FailedError
from toolglot.gateway.flow import FlowContext
from toolglot.gateway.received import start_of_failure
from toolglot.server import error_replies, headers
from toolglot.server.asgi_request import OUR_HEADERS, hide_in_record
from toolglot.server.credentials import hide
from toolglot.server.headers import encode_lines

_WHOLE = b"content-type: application/json\r\ncontent-length: %d\r\n"

MOST_ANSWER_LINES = 64
"""Limited, because clients choose model names and control the length of receipts."""


class ClientRequest(ClientAnswer, kw_only=True):
    """Counts as a request in flight until `close`."""

    connection: ClientConnection
    is_awaited: bool = False
    """True if the answer could not begin without awaiting something."""
    _pending_head: bytes = b""
    """The head of a stream, which is sent with its first piece."""

    @property
    def full(self) -> bool:
        return self.connection.full

    # The answer

    def begin(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> None:
        self.connection.begun()
        self._pending_head = self._encode_head(context, self.head.stream_lines, upstream_headers)

    def write(self, data: bytes) -> None:
        size, record = len(data), self.record
        record.bytes_out += size
        if self._pending_head:
            head, self._pending_head = self._pending_head, b""
            record.first_byte = self.connection.loop.time()
            self.connection.put(b"%b%x\r\n%b\r\n" % (head, size, data))
        else:
            self.connection.put(b"%x\r\n%b\r\n" % (size, data))

    def end(self, context: FlowContext, end: StreamEnd, now: float) -> None:
        head, self._pending_head = self._pending_head, b""
        if end.upstream_headers is not None and not context.begun:
            head = self._encode_head(context, self.head.stream_lines, end.upstream_headers)
        self._put_end(head, end, now)

    def _put_end(self, head: bytes, end: StreamEnd, now: float) -> None:
        last = b"%x\r\n%b\r\n" % (len(end.data), end.data) if end.data else b""
        self._put_last(head + last if end.is_cut else b"%b%b0\r\n\r\n" % (head, last), len(end.data), now)

    def reply(self, context: FlowContext, answer: WholeAnswer, now: float) -> None:
        size, framing = len(answer.body), _WHOLE % len(answer.body)
        if self.record.cost is not None:
            framing += encode_lines(headers.describe_cost(self.record))
        head = self._encode_head(context, framing, answer.upstream_headers)
        self._put_last(head + answer.body, size, now)

    def refuse(self, context: FlowContext, error: ApiError, now: float) -> None:
        self._refuse(context, error, now, self.source.client_headers(context, None))

    def fail(self, context: FlowContext, failure: Exception, now: float) -> None:
        error = error_replies.describe_failure(failure, self.record) or error_replies.DRAINING
        if isinstance(failure, (FailedError, LossError)):
            receipt = headers.describe_receipt(failure.receipt)
        else:
            receipt = {} if context.exchange is None else self.source.client_headers(context, None)
        self._refuse(context, error, now, receipt, failure.start if isinstance(failure, FailedError) else None)

    def _refuse(
        self,
        context: FlowContext,
        error: ApiError,
        now: float,
        receipt: dict[str, str],
        start: Start | None = None,
    ) -> None:
        record, client, failure = self.record, self.head.client, error
        error = context.hide(failure)
        context.note(error)
        if context.is_streaming and error_replies.is_sent_as_stream(client, failure):
            head = self._encode_head(context, self.head.stream_lines, None)
            start = start or start_of_failure(self.received, record, context.exchange)
            self._put_end(head, StreamEnd(encode_early_failure(self.received, start, error)), now)
            return
        told = error_replies.encode_error_reply(client, error, record)
        record.status = told.status
        receipt = self._hide({**receipt, **headers.VERSION})
        fields = {**told.headers, **receipt, "content-length": str(len(told.body)), "x-request-id": record.id}
        head = self.connection.greeting(told.status) + encode_lines(fields)
        self._put_last(head + b"\r\n" + told.body, len(told.body), now)

    def _put_last(self, data: bytes, size: int, now: float) -> None:
        """Write the end of the answer; `size` bytes of it are the body."""
        record = self.record
        if record.first_byte is None:
            record.first_byte = now
        if record.error is None and not self.is_awaited:
            record.is_simple = record.has_one_call
        record.bytes_out += size
        self.connection.put(data)

    def _encode_head(self, context: FlowContext, framing: bytes, upstream_headers: Mapping[str, str] | None) -> bytes:
        record = self.record
        record.status = 200
        lines = self.header_lines(context, upstream_headers)
        start, identity = self.head.request_id_start, record.id.encode()
        own = b"%b%b\r\n" % (start, identity) if start and start not in lines else b""  # the upstream's own id stays
        return b"%b%b%b%bx-request-id: %b\r\n\r\n" % (self.connection.greeting(), framing, lines, own, identity)

    def header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        """Return the headers of the answer that describe the exchange."""
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
        fields = {**self.source.client_headers(context, upstream_headers), **headers.VERSION}
        fields.pop("x-request-id", None)  # ours replaces the upstream's
        return encode_lines(self._hide(fields))

    def _hide(self, fields: dict[str, str]) -> dict[str, str]:
        if shown := self.head.credentials:
            fields |= {name: hide(value, shown) for name, value in fields.items() if name.startswith(OUR_HEADERS)}
        return fields

    # The end

    def answered(self, now: float) -> None:
        self.connection.answered(now)

    def drained(self) -> None: ...

    def close(self, context: FlowContext, now: float) -> None:
        """Report the finished request."""
        service, record = self.service, self.record
        if self.hold is not None:
            self.hold.release()
        record.ended = now
        service.in_flight -= 1
        self.report()
        self.source.close()
        if self.is_awaited:  # stored history may have made it large
            self.release()
        if self.head.credentials:
            hide_in_record(record, self.head.credentials)
        service.observe(record)
