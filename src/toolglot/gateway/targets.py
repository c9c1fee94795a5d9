"""The targets of one request: the call of each, and the translation of the request and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from time import time

from msgspec import Struct

from toolglot.errors import ApiError, ToolglotError
from toolglot.exchange_settings import AnswerLabels, CallerOptions
from toolglot.forwarding import OWN_CODES
from toolglot.gateway.commands import Steps, WholeReply
from toolglot.gateway.features.conversation_replay import ConversationReplay
from toolglot.gateway.features.reasoning_state import ReasoningState
from toolglot.gateway.features.recording import ExchangeRecording, describe_settings
from toolglot.gateway.flow import FlowContext, Stream, UpstreamTarget, await_result, offload
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.pool_targets import choose_targets, find_turn
from toolglot.gateway.prefix_reuse import HashedTurn, PrefixHashing
from toolglot.gateway.received import CallHead, ReceivedRequest, answer_id
from toolglot.gateway.recent_prefixes import hash_prompt_prefix
from toolglot.gateway.request_record import RequestRecord, make_charge
from toolglot.gateway.tool_mode import ToolModes
from toolglot.gateway.upstream_errors import decode_error_reply, describe_outcome, is_answer, shorten_message
from toolglot.ir import Usage, replace, usage_after, used_by_both
from toolglot.receipt import Receipt
from toolglot.recordings.format import CallSettings
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.credentials import hide_more
from toolglot.streaming import StreamTranslation
from toolglot.textcalls.settings import BAD_TOOL_CALL, TextCalls
from toolglot.translate import ExchangeCore
from toolglot.upstream.exchange import NO_CONVERSATION_STATE, ConversationState
from toolglot.upstream.http_client import HttpTransport, PreparedCall, request_head
from toolglot.upstream.offload import LARGE
from toolglot.upstream.remedies import apply_remedies, encode_remedied
from toolglot.upstream.replay import labels
from toolglot.upstream.transport import Reply, Transport, TransportError, UpstreamCall
from toolglot.upstream.upstream import Upstream


class RequestTargets(Struct, eq=False):
    """Makes the targets of one request."""

    gateway: Gateway
    received: ReceivedRequest
    tool_modes: ToolModes
    replays: ConversationReplay
    states: ReasoningState
    prefix: PrefixHashing
    _repeats: dict[int, bool] | None = None
    """Whether the beginning of the prompt was seen before, by its key."""

    @classmethod
    def of(
        cls,
        gateway: Gateway,
        received: ReceivedRequest,
        tool_modes: ToolModes | None = None,
        replays: ConversationReplay | None = None,
        states: ReasoningState | None = None,
    ) -> RequestTargets:
        return cls(
            gateway,
            received,
            tool_modes if tool_modes is not None else ToolModes(),
            replays if replays is not None else ConversationReplay(),
            states if states is not None else ReasoningState(),
            PrefixHashing(gateway.prefixes),
        )

    def build(self, context: FlowContext, targets: Sequence[Target]) -> Iterable[UpstreamTarget]:
        upstreams, pools = self.gateway.upstreams, self.gateway.pools
        if not pools:
            return [self._target(upstreams[target.upstream], target) for target in targets]
        return self._with_pools(context, targets)

    def _with_pools(self, context: FlowContext, targets: Sequence[Target]) -> Iterator[UpstreamTarget]:
        """Yield the targets one after the other: the members of a pool are chosen when they are needed."""
        owner, store = context.record.owner, self.states.state_store
        for target in targets:
            pool = self.gateway.pools.get(target.upstream)
            if pool is None:
                yield self._target(self.gateway.upstreams[target.upstream], target)
            else:
                turn = find_turn(self.received, owner, pool, target, store)
                yield from choose_targets(context, pool, target, turn, self._target)

    def _target(self, upstream: Upstream, target: Target) -> UpstreamTarget:
        return UpstreamTarget(
            name=upstream.name,
            breaker=self.gateway.breaker(upstream),
            retries=upstream.retries,
            prepare=partial(self._prepare, upstream, target),
            describe=partial(describe_outcome, upstream),
        )

    def _prepare(self, upstream: Upstream, target: Target, context: FlowContext) -> Steps[ExchangeTranslation]:
        tool_modes, request = self.tool_modes, self.received.request
        if tool_modes.needs_lookup(upstream, target, request):
            calls = yield from await_result(context, partial(tool_modes.find_text_calls, upstream, target, request))
        else:
            calls = tool_modes.known_text_calls(upstream, target, request)
        return (yield from self.translate_with(context, upstream, target, calls))

    def prepare_as_text(
        self, upstream: Upstream, target: Target, context: FlowContext, error: ApiError
    ) -> Steps[ExchangeTranslation | None]:
        calls = self.tool_modes.text_calls_after(upstream, target, self.received.request, error)
        if calls is None:
            return None
        translation = yield from self.translate_with(context, upstream, target, calls, was_refused=True)
        why = f"the upstream does not accept them: {shorten_message(error)}"
        translation.exchange.receipt.note("tools", "sent as text", why)
        return translation

    def translate_with(
        self,
        context: FlowContext,
        upstream: Upstream,
        target: Target,
        text_calls: TextCalls | None,
        *,
        was_refused: bool = False,
    ) -> Steps[ExchangeTranslation]:
        """Create an exchange with the upstream's request in it. Raises the same as `ExchangeCore.request_of`."""
        received, record = self.received, context.record
        size = len(received.body)
        known = NO_CONVERSATION_STATE
        if self.replays.needs_lookup(received.client, upstream) or self.states.state_store is not None:
            known = yield from self._look_up(context, upstream, target, text_calls)
        exchange = self._new_exchange(context, upstream, target, text_calls, known)
        if received.lines:
            exchange.receipt.add(received.lines)
        if self.states.state_store is not None:
            self.states.watch(exchange)
        try:
            refusals = self.gateway.known_refusals.find(upstream.base_url, target.model, context.environment.now)
            work = partial(_encode_request, exchange, received, refusals)
            body = work() if size <= LARGE else (yield from offload(context, size, work))
        except ToolglotError:
            context.exchange = exchange
            raise
        context.exchange = exchange  # not earlier: another reader may see the receipt while it is being written
        assert exchange.sent is not None
        record.upstream, record.upstream_dialect = upstream.name, upstream.dialect.name
        record.member = upstream.member or None
        record.upstream_model = exchange.sent.model
        limit = self.gateway.config.limits.response
        translation = ExchangeTranslation(
            self, record, target, upstream, exchange, body, size, limit, upstream.transport, body, was_refused
        )
        if received.recording is not None:
            forward = received.encoder is None
            settings = describe_settings(upstream, target, exchange, text_calls, known, forward=forward)
            translation.transport = _RecordingTransport(translation, received.recording, settings)
        if self.replays.keeps_answer:
            translation.transport = _ReplayKeepingTransport(translation.transport, self.replays, exchange)
        return translation

    def _look_up(
        self, context: FlowContext, upstream: Upstream, target: Target, text_calls: TextCalls | None
    ) -> Steps[ConversationState]:
        """Look up the stored state of the conversation, for this target."""
        received = self.received
        client, request, size = received.client, received.request, len(received.body)
        known = NO_CONVERSATION_STATE
        if self.replays.needs_lookup(client, upstream):
            told = partial(self.replays.look_up, client, upstream, target, request, text_calls, size)
            known = yield from await_result(context, told)
        if self.states.state_store is None:
            return known
        if size <= LARGE:
            names = self.states.search(client, upstream, target, request, size)
        else:
            search = partial(self.states.search, client, upstream, target, request, size)
            names = yield from offload(context, size, search)
        if names and (states := (yield from await_result(context, partial(self.states.find, names)))):
            known = replace(known, states=states)
        return known

    def _new_exchange(
        self,
        context: FlowContext,
        upstream: Upstream,
        target: Target,
        text_calls: TextCalls | None,
        known: ConversationState,
    ) -> ExchangeCore:
        received = self.received
        settings = self.gateway.exchanges.of_kind(
            received.client,
            upstream,
            target,
            text_calls=text_calls,
            strict=received.strict,
            told=known,
            forward=received.encoder is None,
        )
        repeats = settings.marks_cache and self._prefix_repeats(context, upstream, target)
        options = _caller_options(self.states.state_store is not None and self.states.kept, received.can_cut, repeats)
        if received.serves is not None:
            options = replace(options, serves=received.serves)
        labels = AnswerLabels(int(time()), answer_id(context.record), settings.clock)
        exchange = ExchangeCore.begin(settings, options, labels)
        if received.credentials:
            exchange.hide = hide_more(exchange.hide, received.credentials)
        return exchange

    def _prefix_repeats(self, context: FlowContext, upstream: Upstream, target: Target) -> bool:
        """Return whether the request's tools and system text were sent recently. Recorded once for each target."""
        if self._repeats is None:
            self._repeats = {}
        key = hash_prompt_prefix(context.record.owner, upstream.name, target.model, self.received.request)
        if key not in self._repeats:
            self._repeats[key] = self.gateway.recent_prefixes.note(key, context.environment.now())
        return self._repeats[key]

    def client_headers(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """Return the headers of the answer; only those of the receipt while no upstream has answered."""
        translation, exchange = context.translation, context.exchange
        if upstream_headers is not None and isinstance(translation, ExchangeTranslation):
            return translation.client_headers(upstream_headers)
        return headers.describe_receipt(Receipt() if exchange is None else exchange.receipt)

    def note(self, context: FlowContext) -> None:
        """Write the usage and the stop reason of the answer into its record."""
        record, stream, translation = context.record, context.stream, context.translation
        if isinstance(stream, StreamTranslation):
            self.charge_stream(context)
            record.usage = stream.usage
            record.stop = None if stream.stop is None else stream.stop.reason
        elif isinstance(translation, ExchangeTranslation) and (answered := translation.exchange.answered) is not None:
            record.usage = used_by_both(translation.spent, answered.usage)
            record.stop = answered.stop.reason

    def charge_stream(self, context: FlowContext) -> None:
        """Charge the stream that the client gets, once it has ended. Whole answers are charged when they arrive."""
        if isinstance(context.stream, StreamTranslation) and isinstance(context.translation, ExchangeTranslation):
            context.translation.charge_stream(context.stream)

    def hash_prefix(self) -> None:
        _ = self.prefix.found

    def close(self) -> None:
        self.prefix.cancel()


def _encode_request(exchange: ExchangeCore, received: ReceivedRequest, refusals: Iterable[ApiError]) -> bytes:
    """Encode the upstream's request, without the parts that the model has refused before."""
    body = exchange.request_of(received.request, received.body)
    for refusal in refusals:
        assert exchange.sent is not None
        changed = apply_remedies(exchange.sent, exchange.upstream.name, refusal, in_advance=True)
        if changed is not None and not changed.has_loss:
            exchange.receipt.add(changed.lines)
            body = exchange.resend(changed.request)
    return body


@lru_cache(maxsize=8)
def _caller_options(keeps_state: bool, can_cut: bool, prefix_repeats: bool) -> CallerOptions:
    return CallerOptions(keeps_state=keeps_state, can_cut=can_cut, holds_head=True, prefix_repeats=prefix_repeats)


def early_fault(stream: Stream, upstream: str) -> ApiError | None:
    """Return the error at the beginning of a stream of this dialect; None if it begins normally. A call that cannot be
    run does not count, because the answer ends with it, even if the whole stream arrived at once.
    """
    if stream.fault is None or stream.fault.code == BAD_TOOL_CALL:
        return None
    is_document = isinstance(stream, StreamTranslation) and stream.is_document
    is_ours = stream.fault.code in OWN_CODES  # the upstream reported no error
    return replace(stream.fault, streamed_by=None if is_document or is_ours else upstream)


def _head_of(call: UpstreamCall, upstream: Upstream, transport: HttpTransport) -> CallHead:
    destination = transport.destination(call.url)
    return CallHead(upstream, destination, request_head(call, destination))


MOST_CALL_HEADS = 64
"""Limited, because clients choose model names, and some paths contain them."""


class ExchangeTranslation(Struct, eq=False):
    """Translates one request and its answer by an `ExchangeCore`."""

    _targets: RequestTargets
    _record: RequestRecord
    _target: Target
    upstream: Upstream
    exchange: ExchangeCore
    body: bytes
    size: int
    limit: int
    transport: Transport
    _hash_next: bytes | None
    """The request whose prefix is hashed once it is sent."""
    _was_refused: bool
    """True if the upstream has refused the request because of its tools, which are now text."""
    _remedied: tuple[ApiError, ...] = ()
    """Refusals that a remedy without loss was applied to."""
    _receipt_lines: int = 0
    _reply_headers: Mapping[str, str] = {}
    """The headers of the upstream's last reply."""
    spent: Usage | None = None
    """Usage of the first answer, if the model was called again."""
    _is_charged: bool = False
    """True if the cost of the stream is known."""

    def call(self, body: bytes) -> UpstreamCall | PreparedCall:
        upstream, exchange = self.upstream, self.exchange
        if body is self._hash_next:
            self._hash_next = None
            self._targets.prefix.begin(self._record, upstream, exchange, body)
        heads, transport = self._targets.received.call_heads, upstream.transport
        if heads is None or self.transport is not transport or not isinstance(transport, HttpTransport):
            return self._new_call(body)
        if upstream.tokens is not None or upstream.dialect.headers.sign is not None:
            return self._new_call(body)
        assert exchange.sent is not None
        key = (upstream.label, exchange.path, exchange.sent.stream)
        head = heads.get(key)
        if head is None or head.upstream is not upstream:
            try:
                head = _head_of(self._new_call(b""), upstream, transport)
            except TransportError:
                return self._new_call(body)  # the transport reports the problem
            if len(heads) >= MOST_CALL_HEADS:
                heads.clear()
            heads[key] = head
        return PreparedCall(head.destination, head.lines, body, upstream.timeouts)

    def _new_call(self, body: bytes) -> UpstreamCall:
        upstream, exchange, received = self.upstream, self.exchange, self._targets.received
        assert exchange.sent is not None
        dialect = upstream.dialect
        path = headers.add_query(exchange.path, received.client, dialect, received.query)
        passed = headers.select_for_upstream(received.client, dialect, received.headers, stream=exchange.sent.stream)
        return upstream.call(path, body, passed)

    def remedy(self, context: FlowContext, error: ApiError) -> Steps[bytes | None]:
        return (yield from offload(context, self.size, partial(self._remedy, error)))

    def _remedy(self, error: ApiError) -> bytes | None:
        losses = self.exchange.receipt.loss_count
        body = encode_remedied(self.exchange, error)
        if body is not None:
            self._hash_next = body
            if self.exchange.receipt.loss_count == losses:
                self._remedied = (*self._remedied, error)
        return body

    @property
    def pending_retry(self) -> object | None:
        return self.exchange.pending_retry

    def ask_again(self, stream: Stream | None) -> bytes:
        if isinstance(stream, StreamTranslation):
            self.spent = None if stream.pending_retry is None else stream.pending_retry.usage
            self._charge(self.spent, stream.service_tier)
            return stream.encode_retry()
        self.spent = None if self.exchange.pending_retry is None else self.exchange.pending_retry.usage
        return self.exchange.encode_retry()

    def decode_error(self, reply: WholeReply) -> ApiError:
        return decode_error_reply(self.upstream, reply.status, reply.headers, reply.body)

    def label(self, upstream_headers: Mapping[str, str]) -> None:
        self._reply_headers = upstream_headers
        labels.apply_labels(self.exchange, self.upstream, upstream_headers)
        self._receipt_lines = len(self.exchange.receipt)

    def with_reply_headers(self, error: ApiError) -> ApiError:
        client = self.exchange.client
        if client.name != self.upstream.dialect.name:
            return error
        passed = client.headers.select_answer_headers(self.upstream.safe_headers(self._reply_headers))
        return replace(error, reply_headers=passed) if passed else error

    def decode_at_once(self, body: bytes) -> bytes | None:
        return self._decode(body) if len(body) <= LARGE else None

    def decode_answer(self, context: FlowContext, body: bytes) -> Steps[bytes]:
        return (yield from offload(context, len(body), partial(self._decode, body)))

    def _decode(self, body: bytes) -> bytes:
        exchange = self.exchange
        before = exchange.answered
        try:
            return exchange.response(body, encode=self._targets.received.encoder is None)
        finally:  # an answer that cannot be used costs the same
            if (answered := exchange.answered) is not None and answered is not before:
                self._charge(answered.usage, answered.service_tier)

    def charge_stream(self, stream: StreamTranslation) -> None:
        if not self._is_charged:
            self._is_charged = True
            self._charge(usage_after(stream.usage, self.spent), stream.service_tier)

    def _charge(self, usage: Usage | None, service_tier: str | None) -> None:
        """Add the cost of one model call to the record."""
        assert self.exchange.sent is not None
        name, model = self.upstream.name, self.exchange.sent.model
        found = self._targets.gateway.pricing.find(name, model)
        if found.is_due:
            self._record.charge(make_charge(name, model, usage, service_tier, found))

    def as_text(self, context: FlowContext, error: ApiError) -> Steps[ExchangeTranslation | None]:
        return (yield from self._targets.prepare_as_text(self.upstream, self._target, context, error))

    def open_stream(self) -> StreamTranslation:
        encoder = self._targets.received.encoder
        return self.exchange.stream(None if encoder is None else encoder())

    def early_fault(self, stream: Stream) -> ApiError | None:
        return early_fault(stream, self.exchange.upstream.name)

    def accept(self, context: FlowContext, before: ApiError | None) -> Steps[None] | None:
        prefix = self._targets.prefix
        if self._remedied:
            refusals, now = self._targets.gateway.known_refusals, context.environment.now()
            refusals.remember(self.upstream.base_url, self._target.model, self._remedied, now)
        if self._was_refused or prefix.is_running:
            return self._accept_later(context, before)
        self._accept(before, prefix.found)
        return None

    def _accept_later(self, context: FlowContext, before: ApiError | None) -> Steps[None]:
        if self._was_refused:
            yield from await_result(
                context, partial(self._targets.tool_modes.store_refusal, self.upstream, self._target)
            )
        self._accept(before, (yield from await_result(context, self._targets.prefix.result)))

    def _accept(self, before: ApiError | None, found: HashedTurn | None) -> None:
        upstream = self.upstream
        if found is not None:
            self._targets.gateway.prefixes.record_reuse(self._record, upstream.name, found)
        if before is not None:
            self.exchange.receipt.note("model", f"answered by {upstream.label}", before.message)

    def discard(self) -> None:
        self.exchange.receipt.truncate(self._receipt_lines)

    def release(self) -> None:
        self.body, self._hash_next = b"", None
        if self.size <= LARGE:  # the parts of a large request are dropped in a thread, when its answer has ended
            self.exchange.release_request()
            self._targets.received.body = b""

    def client_headers(self, upstream_headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of the client's answer."""
        return headers.describe_exchange(self.exchange, self.upstream, upstream_headers, self._record)


class _RecordingTransport:
    """Records each call and its reply."""

    def __init__(self, translation: ExchangeTranslation, recording: ExchangeRecording, settings: CallSettings) -> None:
        self._translation = translation
        self._inner = translation.transport
        self._recording = recording
        self._settings = settings

    async def send(self, call: UpstreamCall) -> Reply:
        translation = self._translation
        assert translation.exchange.sent is not None
        attempt = self._recording.call(translation.upstream, translation.exchange.sent, call, self._settings)
        try:
            reply = await self._inner.send(call)
        except TransportError as failure:
            attempt.record_failure(failure)
            raise
        return attempt.record_reply(reply)

    async def close(self) -> None:
        await self._inner.close()


class _ReplayKeepingTransport:
    """Stores the state that an upstream needs back with the next turn of the conversation."""

    def __init__(self, inner: Transport, replays: ConversationReplay, exchange: ExchangeCore) -> None:
        self._inner = inner
        self._replays = replays
        self._exchange = exchange

    async def send(self, call: UpstreamCall) -> Reply:
        reply = await self._inner.send(call)
        if not is_answer(reply.status, reply.headers):
            return reply
        return self._replays.watch_reply(self._exchange, reply, call.body)

    async def close(self) -> None:
        await self._inner.close()
