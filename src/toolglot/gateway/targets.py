"""The targets of one request: how each is called, and how the request and its answer are translated for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from time import time

from toolglot.dialect import capabilities
from toolglot.errors import ApiError, ToolglotError
from toolglot.gateway.commands import Steps, WholeReply
from toolglot.gateway.flow import FlowContext, Stream, UpstreamTarget, await_result, is_answer, offload
from toolglot.gateway.received import CallHead, ReceivedRequest, answer_id
from toolglot.ir import Response, Usage, replace, used_by_both
from toolglot.receipt import Receipt
from toolglot.recordings.format import CallSettings
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.calling import Calling
from toolglot.server.credentials import also_hiding
from toolglot.server.gateway import Gateway
from toolglot.server.logs import printable
from toolglot.server.outcomes import decode_error_reply, said, told
from toolglot.server.prefixes import Found, PrefixHashing
from toolglot.server.recent_prefixes import prefix_key
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.states import States
from toolglot.server.taping import Tape, settings_of
from toolglot.streaming import StreamTranslation
from toolglot.textcalls.settings import BAD_TOOL_CALL, TextCalls
from toolglot.translate import Exchange
from toolglot.upstream.exchange import NO_CONVERSATION_STATE, ConversationState
from toolglot.upstream.http_client import HttpTransport, PreparedCall, request_head
from toolglot.upstream.offload import LARGE
from toolglot.upstream.remedies import apply_remedies
from toolglot.upstream.replay import labels
from toolglot.upstream.replay.unmatched import CODE as NO_RECORDING
from toolglot.upstream.transport import Reply, Transport, TransportError, UpstreamCall
from toolglot.upstream.upstream import Upstream

log = logging.getLogger("toolglot.server")


class RequestTargets:
    """Makes the targets of one request."""

    __slots__ = ("_repeats", "calling", "context", "gateway", "prefix", "received", "replays", "states")

    def __init__(
        self,
        gateway: Gateway,
        received: ReceivedRequest,
        context: FlowContext,
        calling: Calling | None = None,
        replays: Replays | None = None,
        states: States | None = None,
    ) -> None:
        self.gateway = gateway
        self.received = received
        self.context = context
        self.calling = calling if calling is not None else Calling()
        self.replays = replays if replays is not None else Replays()
        self.states = states if states is not None else States()
        self.prefix = PrefixHashing(gateway.prefixes)
        self._repeats: dict[int, bool] = {}
        context.on_failure = log_failure

    def build(self, targets: Sequence[Target]) -> list[UpstreamTarget]:
        return [self._target(target) for target in targets]

    def _target(self, target: Target) -> UpstreamTarget:
        upstream = self.gateway.upstreams[target.upstream]
        return UpstreamTarget(
            name=upstream.name,
            breaker=self.gateway.breaker(upstream),
            retries=upstream.retries,
            prepare=partial(self._prepare, upstream, target),
            describe=partial(told, upstream),
        )

    def _prepare(self, upstream: Upstream, target: Target, context: FlowContext) -> Steps[ExchangeTranslation]:
        calling, request = self.calling, self.received.request
        if calling.needs_lookup(upstream, target, request):
            calls = yield from await_result(context, partial(calling.of, upstream, target, request))
        else:
            calls = calling.known(upstream, target, request)
        return (yield from self.translate_with(upstream, target, calls))

    def prepare_as_text(
        self, upstream: Upstream, target: Target, context: FlowContext, error: ApiError
    ) -> Steps[ExchangeTranslation | None]:
        calls = self.calling.instead(upstream, target, self.received.request, error)
        if calls is None:
            return None
        translation = yield from self.translate_with(upstream, target, calls, was_refused=True)
        why = f"the upstream does not take them: {said(error)}"
        translation.exchange.receipt.note("tools", "sent as text", why)
        return translation

    def translate_with(
        self, upstream: Upstream, target: Target, text_calls: TextCalls | None, *, was_refused: bool = False
    ) -> Steps[ExchangeTranslation]:
        """A new exchange with the upstream's request in it. Raises what `Exchange.request_of` does."""
        received, context = self.received, self.context
        record, size = context.record, len(received.body)
        known = yield from self._look_up(upstream, target, text_calls)
        exchange = self._new_exchange(upstream, target, text_calls, known)
        exchange.receipt.add(received.lines)
        self.states.watch(exchange)
        try:
            work = partial(exchange.request_of, received.request, received.body)
            body = work() if size <= LARGE else (yield from offload(context, size, work))
        except ToolglotError:
            context.exchange = exchange
            raise
        context.exchange = exchange  # not before: somebody may read its receipt while it is being written
        assert exchange.sent is not None
        record.upstream, record.upstream_dialect = upstream.name, upstream.dialect.name
        record.upstream_model = exchange.sent.model
        translation = ExchangeTranslation(self, upstream, target, exchange, body, text_calls, was_refused=was_refused)
        if received.tape is not None:
            forward = received.encoder is None
            settings = settings_of(upstream, target, exchange, text_calls, known, forward=forward)
            translation.transport = _RecordedTransport(translation, received.tape, settings)
        if self.replays.keeps:
            translation.transport = _ReplayKeepingTransport(translation.transport, self.replays, exchange)
        return translation

    def _look_up(self, upstream: Upstream, target: Target, text_calls: TextCalls | None) -> Steps[ConversationState]:
        """What is stored of the conversation, for this target."""
        received, context = self.received, self.context
        client, request, size = received.client, received.request, len(received.body)
        known = NO_CONVERSATION_STATE
        if self.replays.needs_lookup(client, upstream):
            told = partial(self.replays.told, client, upstream, target, request, text_calls, size)
            known = yield from await_result(context, told)
        search = partial(self.states.search, client, upstream, target, request, size)
        names = search() if size <= LARGE else (yield from offload(context, size, search))
        if names and (states := (yield from await_result(context, partial(self.states.find, names)))):
            known = replace(known, states=states)
        return known

    def _new_exchange(
        self, upstream: Upstream, target: Target, text_calls: TextCalls | None, known: ConversationState
    ) -> Exchange:
        received = self.received
        make = self.gateway.exchanges.of_kind(
            received.client,
            upstream,
            target,
            text_calls=text_calls,
            strict=received.strict,
            told=known,
            forward=received.encoder is None,
        )
        exchange = make(
            created=int(time()),
            answer_id=answer_id(self.context.record),
            keeps_state=self.states.kept,
            can_cut=received.can_cut,
            holds_head=True,
            prefix_repeats=self._prefix_repeats(upstream, target),
            serves=received.serves,
        )
        if received.shown:
            exchange.hide = also_hiding(exchange.hide, received.shown)
        return exchange

    def _prefix_repeats(self, upstream: Upstream, target: Target) -> bool:
        """Whether the request's tools and system text came before, a short time ago. Noted once for each target."""
        client, dialect = self.received.client, upstream.dialect
        if client.name == dialect.name or not capabilities(dialect, target.model).cache_by_marks:
            return False
        key = prefix_key(self.context.record.owner, upstream.name, target.model, self.received.request)
        if key not in self._repeats:
            now = self.context.environment.now()
            self._repeats[key] = self.gateway.recent_prefixes.note(key, now)
        return self._repeats[key]

    def client_headers(self, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """The headers of the answer; those of the receipt alone while no upstream has answered."""
        translation, exchange = self.context.translation, self.context.exchange
        if upstream_headers is not None and isinstance(translation, ExchangeTranslation):
            return translation.client_headers(upstream_headers)
        return headers.of_receipt(Receipt() if exchange is None else exchange.receipt)

    def note(self) -> None:
        """Put the usage and the stop reason of the answer into its record."""
        record, stream, translation = self.context.record, self.context.stream, self.context.translation
        if isinstance(stream, StreamTranslation):
            record.usage = stream.usage
            record.stop = None if stream.stop is None else stream.stop.reason
        elif isinstance(translation, ExchangeTranslation) and (answered := translation.exchange.answered) is not None:
            record.usage = used_by_both(translation.spent, answered.usage)
            record.stop = answered.stop.reason

    def close(self) -> None:
        self.prefix.cancel()


def answer_without_model(gateway: Gateway, received: ReceivedRequest, target: Target) -> Response | None:
    """The answer to a request that no model needs to see, unless its upstream understands it."""
    if gateway.upstreams[target.upstream].dialect.name == received.client.name:
        return None
    return received.client.request.answer_without_model(received.request)


def early_fault(stream: Stream, upstream: str) -> ApiError | None:
    """The error that a stream of this dialect begins with, if it does. A call that cannot be run is none: that is how
    the answer ends, however much of it came at once."""
    if stream.fault is None or stream.fault.code == BAD_TOOL_CALL:
        return None
    is_document = isinstance(stream, StreamTranslation) and stream.is_document
    return replace(stream.fault, streamed_by=None if is_document else upstream)


def log_failure(record: Record, name: str, error: ApiError) -> None:
    if error.code != NO_RECORDING:  # which is long, and the request's own line says it
        log.warning("request %s: %s (%s): %s", record.id, name, error.kind, printable(error.message))


def _head_of(call: UpstreamCall, upstream: Upstream, transport: HttpTransport) -> CallHead:
    destination = transport.destination(call.url)
    return CallHead(upstream, destination, request_head(call, destination))


MOST_CALL_HEADS = 64
"""Clients choose the names of models, which stand in some paths."""


class ExchangeTranslation:
    """Translates one request and its answer by an `Exchange`."""

    __slots__ = (
        "_as_text",
        "_calling",
        "_gateway",
        "_hash_next",
        "_prefix",
        "_receipt_lines",
        "_received",
        "_record",
        "_target",
        "_text_calls",
        "_was_refused",
        "body",
        "exchange",
        "limit",
        "size",
        "spent",
        "transport",
        "upstream",
    )

    def __init__(
        self,
        targets: RequestTargets,
        upstream: Upstream,
        target: Target,
        exchange: Exchange,
        body: bytes,
        text_calls: TextCalls | None,
        *,
        was_refused: bool,
    ) -> None:
        # The context refers to this: with a way back to it, a full collection would have to find them both.
        self._gateway = targets.gateway
        self._received = targets.received
        self._record = targets.context.record
        self._calling = targets.calling
        self._prefix = targets.prefix
        self._as_text = targets.prepare_as_text
        self._target = target
        self._text_calls = text_calls
        self._was_refused = was_refused
        self._receipt_lines = 0
        self._hash_next: bytes | None = body
        self.upstream = upstream
        self.exchange = exchange
        self.body = body
        self.size = len(targets.received.body)
        self.limit = targets.gateway.config.limits.response
        self.transport: Transport = upstream.transport
        self.spent: Usage | None = None
        """What a first answer cost, after which the model was asked once more."""

    def call(self, body: bytes) -> UpstreamCall | PreparedCall:
        upstream, exchange = self.upstream, self.exchange
        if body is self._hash_next:
            self._hash_next = None
            self._prefix.begin(self._record, upstream, exchange, body)
        heads, transport = self._received.call_heads, upstream.transport
        if heads is None or self.transport is not transport or not isinstance(transport, HttpTransport):
            return self._new_call(body)
        if upstream.tokens is not None or upstream.dialect.headers.sign is not None:
            return self._new_call(body)
        assert exchange.sent is not None
        key = (upstream.name, exchange.path, exchange.sent.stream)
        head = heads.get(key)
        if head is None or head.upstream is not upstream:
            try:
                head = _head_of(self._new_call(b""), upstream, transport)
            except TransportError:
                return self._new_call(body)  # whoever sends it finds out
            if len(heads) >= MOST_CALL_HEADS:
                heads.clear()
            heads[key] = head
        return PreparedCall(head.destination, head.lines, body, upstream.timeouts)

    def _new_call(self, body: bytes) -> UpstreamCall:
        upstream, exchange, received = self.upstream, self.exchange, self._received
        assert exchange.sent is not None
        dialect = upstream.dialect
        path = headers.with_query(exchange.path, received.client, dialect, received.query)
        passed = headers.to_upstream(received.client, dialect, received.headers, stream=exchange.sent.stream)
        return upstream.call(path, body, passed)

    def remedy(self, context: FlowContext, error: ApiError) -> Steps[bytes | None]:
        return (yield from offload(context, self.size, partial(self._remedy, error)))

    def _remedy(self, error: ApiError) -> bytes | None:
        assert self.exchange.sent is not None
        mended = apply_remedies(self.exchange.sent, self.upstream.dialect.name, error)
        if mended is None:
            return None
        request, lines = mended
        self.exchange.receipt.add(lines)
        self._hash_next = self.exchange.resend(request)
        return self._hash_next

    @property
    def wants_again(self) -> object | None:
        return self.exchange.wants_again

    def ask_again(self, stream: Stream | None) -> bytes:
        if isinstance(stream, StreamTranslation):
            return stream.again()
        self.spent = None if self.exchange.wants_again is None else self.exchange.wants_again.usage
        return self.exchange.again()

    def decode_error(self, reply: WholeReply) -> ApiError:
        return decode_error_reply(self.upstream, reply.status, reply.headers, reply.body)

    def label(self, upstream_headers: Mapping[str, str]) -> None:
        labels.apply_labels(self.exchange, self.upstream, upstream_headers)
        self._receipt_lines = len(self.exchange.receipt)

    def decode_at_once(self, body: bytes) -> bytes | None:
        return self._decode(body) if len(body) <= LARGE else None

    def decode_answer(self, context: FlowContext, body: bytes) -> Steps[bytes]:
        return (yield from offload(context, len(body), partial(self._decode, body)))

    def _decode(self, body: bytes) -> bytes:
        return self.exchange.response(body, encode=self._received.encoder is None)

    def as_text(self, context: FlowContext, error: ApiError) -> Steps[ExchangeTranslation | None]:
        return (yield from self._as_text(self.upstream, self._target, context, error))

    def open_stream(self) -> StreamTranslation:
        encoder = self._received.encoder
        return self.exchange.stream(None if encoder is None else encoder())

    def early_fault(self, stream: Stream) -> ApiError | None:
        return early_fault(stream, self.exchange.upstream.name)

    def accept(self, context: FlowContext, before: ApiError | None) -> Steps[None] | None:
        if self._was_refused or self._prefix.is_running:
            return self._accept_later(context, before)
        self._accept(context, before, self._prefix.found)
        return None

    def _accept_later(self, context: FlowContext, before: ApiError | None) -> Steps[None]:
        if self._was_refused:
            yield from await_result(context, partial(self._calling.refused, self.upstream, self._target))
        self._accept(context, before, (yield from await_result(context, self._prefix.result)))

    def _accept(self, context: FlowContext, before: ApiError | None, found: Found | None) -> None:
        upstream = self.upstream
        self._gateway.prefixes.write(self._record, upstream.name, found)
        self._open_direct_route(context)
        if before is not None:
            self.exchange.receipt.note("model", f"answered by {upstream.name}", before.message)

    def _open_direct_route(self, context: FlowContext) -> None:
        """Later requests for the same model may be translated directly."""
        received, gateway = self._received, self._gateway
        if self._text_calls is None and self._record.fallbacks == 0 and received.encoder is None:
            gateway.direct_routes.open(
                received.client,
                received.request.model,
                self.upstream,
                self._target,
                gateway.breaker(self.upstream),
                gateway.config.strict,
                context.environment.now(),
            )

    def discard(self) -> None:
        self.exchange.receipt.truncate(self._receipt_lines)

    def release(self) -> None:
        self.body, self._hash_next = b"", None

    def client_headers(self, upstream_headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of the client's answer."""
        harmless = self.upstream.safe_headers(upstream_headers)
        return headers.of_exchange(self.exchange, harmless, self._record)


class _RecordedTransport:
    """Records each call and its reply."""

    def __init__(self, translation: ExchangeTranslation, tape: Tape, settings: CallSettings) -> None:
        self._translation = translation
        self._inner = translation.transport
        self._tape = tape
        self._settings = settings

    async def send(self, call: UpstreamCall) -> Reply:
        translation = self._translation
        assert translation.exchange.sent is not None
        taped = self._tape.call(translation.upstream, translation.exchange.sent, call, self._settings)
        try:
            reply = await self._inner.send(call)
        except TransportError as failure:
            taped.failed(failure)
            raise
        return taped.replied(reply)

    async def close(self) -> None:
        await self._inner.close()


class _ReplayKeepingTransport:
    """Keeps what an upstream wants back with the next turn of the conversation."""

    def __init__(self, inner: Transport, replays: Replays, exchange: Exchange) -> None:
        self._inner = inner
        self._replays = replays
        self._exchange = exchange

    async def send(self, call: UpstreamCall) -> Reply:
        reply = await self._inner.send(call)
        if not is_answer(reply.status, reply.headers):
            return reply
        return self._replays.watched(self._exchange, reply, call.body)

    async def close(self) -> None:
        await self._inner.close()
