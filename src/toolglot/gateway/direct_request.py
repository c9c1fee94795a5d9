"""One request on a route: the direct translation of it and of its answer, or the general one where it is not plain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from time import time
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from toolglot.dialect import Dialect
from toolglot.dialects import find
from toolglot.direct.answer import Label, answered
from toolglot.direct.plain import PlainRequest
from toolglot.direct.request import Translated
from toolglot.errors import ApiError
from toolglot.events import Fault
from toolglot.gateway.commands import Flow, Result, Steps, WholeAnswer, WholeReply
from toolglot.gateway.context import encode_early_failure
from toolglot.gateway.direct_routes import DirectRoute, SharedRequest
from toolglot.gateway.flow import FlowContext, StoppedError, Stream, UpstreamTarget, await_result
from toolglot.gateway.known_heads import PendingRequest, RequestHead
from toolglot.gateway.received import ReceivedRequest, answer_id, start_of_failure
from toolglot.gateway.targets import ExchangeTranslation, RequestTargets, early_fault
from toolglot.ir import Request
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.body_budget import BodyHold
from toolglot.server.calling import Calling
from toolglot.server.credentials import also_hiding, hide, hide_in_lines
from toolglot.server.headers import header_lines
from toolglot.server.incoming import OUR_HEADERS, hide_in_record
from toolglot.server.outcomes import decode_error_reply
from toolglot.server.prefixes import Found
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.states import Heard, States
from toolglot.streaming import StreamTranslation
from toolglot.translate import Exchange
from toolglot.upstream.http_client import PreparedCall
from toolglot.upstream.offload import LARGE
from toolglot.upstream.transport import Transport, UpstreamCall

if TYPE_CHECKING:
    from toolglot.gateway.client_connection import ClientConnection
    from toolglot.server.gateway import Gateway
    from toolglot.server.service import Service

_NO_REQUEST = PlainRequest(model="", stream=UNSET, settings=(), turns=[], system=[])


class DirectRequest(Struct, eq=False):
    """A `Translation`, and what is told about the request when it is over.

    It counts as one in flight until `close`.
    """

    _service: Service
    _gateway: Gateway
    _client: ClientConnection
    _route: DirectRoute
    _shared: SharedRequest
    _asked: Translated
    _pending: PendingRequest
    record: Record
    _hold: BodyHold | None
    body: bytes
    size: int
    transport: Transport
    limit: int
    wants_again: object | None = None
    _calls: int = 0
    _exchange: Exchange | None = None
    _heard: Heard | None = None
    _prefix: Found | None = None
    _general: RequestTargets | None = None
    _general_translation: ExchangeTranslation | None = None

    @property
    def head(self) -> RequestHead:
        return self._pending.head

    @property
    def client_dialect(self) -> Dialect:
        return self._route.client

    @property
    def is_plain(self) -> bool:
        """The direct way was enough for it."""
        return self._general is None and self._calls == 1

    @property
    def keeps_state(self) -> bool:
        return self._service.store is not None and self._route.issuer is not None

    # Targets

    def targets(self, context: FlowContext) -> Iterable[UpstreamTarget]:
        """The route's own target; behind it those that answer where it fails."""
        route, fallbacks = self._route, self._shared.fallbacks
        return self._all_targets(context, fallbacks) if fallbacks else route.targets

    def _all_targets(self, context: FlowContext, fallbacks: tuple[Target, ...]) -> Iterator[UpstreamTarget]:
        yield from self._route.targets
        yield from self._general_targets(context).build(fallbacks)

    def as_text(self, context: FlowContext, error: ApiError) -> Steps[ExchangeTranslation | None]:
        route = self._route
        return (yield from self._general_targets(context).prepare_as_text(route.upstream, route.target, context, error))

    def _general_targets(self, context: FlowContext) -> RequestTargets:
        if self._general is None:
            head, body, store = self._pending.head, self._pending.body(), self._service.store
            received = ReceivedRequest(
                client=self._route.client,
                request=self._route.client.decode_request(body),
                body=body,
                headers=head.headers,
                query=head.query,
                shown=head.shown,
                can_cut=True,
                strict=self._route.strict,
            )
            owner = self.record.owner
            self._general = RequestTargets(
                self._gateway,
                received,
                context,
                Calling(self._service.verdicts, store),
                Replays(store, owner),
                States(store, owner),
            )
        return self._general

    def _translate_generally(self, context: FlowContext) -> Steps[ExchangeTranslation]:
        """The general translation, for an answer or an error that the direct one does not know."""
        if self._general_translation is None:
            targets, route = self._general_targets(context), self._route
            self._general_translation = yield from targets.translate_with(route.upstream, route.target, None)
            self._general_translation.label({})
        return self._general_translation

    # The translation

    def call(self, body: bytes) -> UpstreamCall | PreparedCall:
        if self._general_translation is not None:
            return self._general_translation.call(body)
        route = self._route
        self._calls += 1
        return PreparedCall(route.destination, self._shared.head, body, route.upstream.timeouts)

    def hash_prefix(self) -> None:
        route, asked = self._route, self._asked
        words, model = asked.plain.turns[0].words, asked.learnt.model
        self._prefix = self._gateway.prefixes.hash_plain(self.record, route.upstream, words, model, asked.body)

    def remedy(self, context: FlowContext, error: ApiError) -> Steps[bytes | None]:
        general = yield from self._translate_generally(context)
        return (yield from general.remedy(context, error))

    def ask_again(self, stream: Stream | None) -> bytes:
        assert self._general_translation is not None
        self.wants_again = None
        return self._general_translation.ask_again(stream)

    def decode_error(self, reply: WholeReply) -> ApiError:
        return decode_error_reply(self._route.upstream, reply.status, reply.headers, reply.body)

    def label(self, upstream_headers: Mapping[str, str]) -> None:
        if self._general_translation is not None:
            self._general_translation.label(upstream_headers)

    def decode_at_once(self, body: bytes) -> bytes | None:
        if self._general_translation is not None or len(body) > LARGE:
            return None
        route, record, asked = self._route, self.record, self._asked
        done = answered(asked, route.client, route.upstream.dialect, body, self._label)
        if done is None:
            return None
        written, answer = done
        record.usage, record.stop = answer.usage, answer.stop
        if answer.lines:
            asked.lines = (*asked.lines, *answer.lines)
        return written

    def decode_answer(self, context: FlowContext, body: bytes) -> Steps[bytes]:
        general = yield from self._translate_generally(context)
        decoded = general.decode_at_once(body)
        if decoded is None:
            decoded = yield from general.decode_answer(context, body)
        self.wants_again = general.wants_again
        return decoded

    def _label(self) -> Label:
        return Label(int(time()), answer_id(self.record))

    def open_stream(self) -> StreamTranslation:
        if self._general_translation is not None:
            return self._general_translation.open_stream()
        keeps_state = self.keeps_state
        self._exchange = exchange = self._route.exchange(self._asked, self._label(), keeps_state=keeps_state)
        if shown := self._pending.head.shown:
            exchange.hide = also_hiding(exchange.hide, shown)
        if keeps_state:
            self._heard = heard = Heard()
            exchange.new_listener = lambda: heard.hear
        return exchange.stream()

    def early_fault(self, stream: Stream) -> ApiError | None:
        return early_fault(stream, self._route.upstream.dialect.name)

    def accept(self, context: FlowContext, before: ApiError | None) -> Steps[None] | None:
        if self._general_translation is not None:
            return self._general_translation.accept(context, before)
        if self._prefix is not None:
            self._gateway.prefixes.write(self.record, self._route.upstream.name, self._prefix)
        if self._exchange is not None:
            context.exchange = self._exchange
            self._asked.lines = tuple(self._exchange.receipt)
        return None

    def discard(self) -> None:
        self._exchange = self._heard = None
        if self._general_translation is not None:
            self._general_translation.discard()

    def release(self) -> None:
        """Nothing is repeated any more: a stream may last, and need not hold the request all the while."""
        self._asked.plain, self._asked.body, self.body = _NO_REQUEST, b"", b""
        if self._general_translation is not None:
            self._general_translation.release()
        if self._heard is None:
            self._pending.pieces.clear()
            self._release_body()

    # What is told about it

    def header_lines(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> bytes:
        """The headers of the answer that tell of the exchange."""
        translation = self._general_translation or context.translation
        if translation is self and upstream_headers is not None:
            return self._route.told(self._shared, self._asked, upstream_headers)
        if isinstance(translation, ExchangeTranslation) and upstream_headers is not None:
            fields = translation.client_headers(upstream_headers)
            fields.pop("x-request-id", None)  # ours takes the place of the upstream's
        else:
            fields = self.receipt_headers(context)
        shown = self._pending.head.shown
        fields |= {name: hide(value, shown) for name, value in fields.items() if name.startswith(OUR_HEADERS)}
        return header_lines({**fields, **headers.VERSION})

    def receipt_headers(self, context: FlowContext) -> dict[str, str]:
        receipt = Receipt()
        receipt.add(self._asked.lines if context.exchange is None else context.exchange.receipt)
        return {**headers.of_receipt(receipt), **headers.VERSION}

    def encode_early_failure(self, context: FlowContext, error: ApiError) -> bytes:
        received = ReceivedRequest(client=self._route.client, request=self._asked.learnt.asked, body=b"")
        return encode_early_failure(received, start_of_failure(received, self.record, context.exchange), error)

    def keep_state(self, context: FlowContext, result: Result) -> Steps[None]:
        """Keep what the upstream will want back of its answer, before the client can go on from it."""
        if self._general is not None:
            states, exchange = self._general.states, context.exchange
            if states.kept and exchange is not None:
                keep = partial(states.keep, exchange, whole=isinstance(result, WholeAnswer))
                yield from await_result(context, keep)
        elif self._heard is not None and self._heard.has_state:
            yield from await_result(context, partial(self._keep_heard, self._heard))

    async def _keep_heard(self, heard: Heard) -> None:
        route, body = self._route, self._pending.body()
        states = States(self._service.store, self.record.owner)
        await states.found(route.client, route.upstream, route.target, route.client.decode_request(body), len(body))
        assert self._exchange is not None
        states.watch(self._exchange, heard)
        await states.keep(self._exchange, whole=False)

    def _release_body(self) -> None:
        if self._hold is not None:
            self._hold.release()

    def close(self, context: FlowContext, now: float) -> None:
        """The request is over."""
        self._release_body()
        service, record, shown = self._service, self.record, self._pending.head.shown
        if self._general is not None:
            self._general.note()
            self._general.close()
            hide_in_record(record, shown)
        elif isinstance(context.stream, StreamTranslation):
            record.usage = context.stream.usage
            record.stop = None if context.stream.stop is None else context.stream.stop.reason
        lines = self._asked.lines if context.exchange is None else tuple(context.exchange.receipt)
        record.ended = now
        service.in_flight -= 1
        service.receipts.keep(record, hide_in_lines(lines, shown) if shown else lines)
        service.observe(record)


def with_direct_state(flow: Flow, context: FlowContext, request: DirectRequest) -> Flow:
    result = yield from flow
    if not isinstance(result, ApiError) and context.record.error is None:
        with suppress(StoppedError):  # an answer that is complete is not held back any longer
            yield from request.keep_state(context, result)
    return result


def encode_direct_fault(context: FlowContext, error: ApiError) -> bytes:
    """An error inside a stream of which only keep-alives were written."""
    client = find(context.record.client or "")
    request = Request(model=context.record.model or "", stream=True)
    return client.stream_encoder(request, Receipt()).feed(Fault(error))
