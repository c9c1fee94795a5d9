"""A configured model whose answers are events, for the tool loop and for callers in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import ApiError
from toolglot.events import Event, unfold
from toolglot.gateway.awaited_answer import AwaitedAnswer
from toolglot.gateway.commands import BeginStream, Flow, Result, Steps, StreamEnd, Write
from toolglot.gateway.context import new_context
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.conversation_replay import ConversationReplay
from toolglot.gateway.features.reasoning_state import ReasoningState, with_reasoning_state
from toolglot.gateway.flow import FlowContext, answer
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.model_route import resolve_allowed
from toolglot.gateway.received import ReceivedRequest
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.targets import RequestTargets
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import Request, replace
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.streaming import StreamTranslation
from toolglot.translate import ExchangeCore


class EventCollector:
    """Collects events in place of a client's encoder. It returns one byte for each, since the flow waits for the first
    bytes of an answer."""

    delta_template = None

    def __init__(self) -> None:
        self._events: list[Event] = []

    def feed(self, event: Event) -> bytes:
        self._events.append(event)
        return b"."

    def keepalive(self) -> bytes:
        return b""

    def take(self) -> Sequence[Event]:
        taken, self._events = self._events, []
        return taken


class GatewayModel:
    """Answers requests one after the other, with the retries, remedies and fallbacks that every client gets.

    `serves` knows the tools that run here: a broken call to one of them is marked, and does not end the answer.

    A conversation stays with the upstream that answered before, and falls back only if that fails.
    """

    def __init__(
        self,
        gateway: Gateway,
        client: Dialect,
        record: RequestRecord,
        *,
        tool_modes: ToolModes | None = None,
        replays: ConversationReplay | None = None,
        states: ReasoningState | None = None,
        received: ReceivedRequest | None = None,
        serves: Callable[[str], bool] | None = None,
        admit: Callable[[FlowContext], Steps[ApiError | None]] | None = None,
    ) -> None:
        self._gateway = gateway
        self._admit = admit
        self._record = record
        self._tool_modes = tool_modes
        self._replays = replays
        self._states = states
        received = received or ReceivedRequest(client=client, request=Request(model=""), body=b"")
        self._received = replace(received, serves=serves)
        self._remaining: tuple[Target, ...] = ()
        self._targets: RequestTargets | None = None
        self._context: FlowContext | None = None
        self.upstream_headers: Mapping[str, str] | None = None
        """Headers of the last answer that has begun."""

    @property
    def exchange(self) -> ExchangeCore | None:
        """The last exchange, even if its answer failed."""
        return None if self._context is None else self._context.exchange

    @property
    def receipt(self) -> Receipt:
        return Receipt() if self.exchange is None else self.exchange.receipt

    @property
    def is_broken(self) -> bool:
        """Whether the upstream broke off in the middle of the last answer."""
        stream = None if self._context is None else self._context.stream
        return isinstance(stream, StreamTranslation) and stream.broken

    def client_headers(self, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """Return the headers of the last answer; only those of its receipt while no upstream has answered."""
        if self._targets is None or self._context is None:
            return headers.describe_receipt(Receipt())
        return self._targets.client_headers(self._context, upstream_headers)

    def begin_round(self, request: Request) -> ModelRound:
        """Start one answer: its flow has to be run, and gives its events."""
        collectors: list[EventCollector] = []

        def encoder() -> EventCollector:
            collectors.append(EventCollector())
            return collectors[-1]

        # The receipt covers all rounds: each round starts with the lines of the earlier ones.
        lines = (*self._received.lines, *self.receipt)
        # A stream that breaks off ends with an event (no cut): the caller decides what the client sees.
        received = replace(self._received, request=request, encoder=encoder, lines=lines, can_cut=False)
        self._record.rounds += bool(self._remaining)
        routed = self._remaining or resolve_allowed(self._gateway, self._received.caller, request.model)
        context = new_context(self._record, is_streaming=request.stream)
        context.admit = self._admit
        targets = RequestTargets.of(self._gateway, received, self._tool_modes, self._replays, self._states)
        flow = answer(context, targets.build(context, routed))
        if self._states is not None:
            flow = with_reasoning_state(flow, context, self._states)
        self._targets, self._context = targets, context
        return ModelRound(flow, context, targets, collectors, partial(self._begin, routed))

    def _begin(self, routed: tuple[Target, ...], upstream_headers: Mapping[str, str] | None) -> None:
        self.upstream_headers = upstream_headers
        self._remaining = routed[self._record.fallbacks :]

    async def ask(self, request: Request) -> AsyncGenerator[Sequence[Event], None]:
        """Request one answer. Yields its events in the client's form as they arrive. Raises `FailedError` if no target
        answers, and what `ExchangeCore.request_of` raises."""
        model_round = self.begin_round(request)
        running = AwaitedAnswer(model_round.flow, model_round.context)
        try:
            while (command := await running.next_command()) is not None:
                if events := model_round.take(command):
                    yield events
            if events := model_round.end(running.result()):
                yield events
        finally:
            await running.release()
            model_round.close()


class ModelRound(Struct, frozen=True, eq=False):
    """One answer of a model. `on_begin` gets the headers of the upstream that answers."""

    flow: Flow
    context: FlowContext
    _targets: RequestTargets
    _collectors: list[EventCollector]
    _on_begin: Callable[[Mapping[str, str] | None], None]

    def take(self, command: BeginStream | Write | bytes) -> Sequence[Event]:
        """Return the events in the data that the flow writes."""
        if type(command) is BeginStream:
            self._on_begin(command.upstream_headers)
            return ()
        return self._collectors[-1].take() if self._collectors else ()

    def end(self, result: Result) -> Sequence[Event]:
        """Return the last events. Raises `FailedError`."""
        context = self.context
        if isinstance(result, ApiError):
            raise FailedError(result, context.exchange)
        if not isinstance(result, StreamEnd):
            assert context.exchange is not None
            assert context.exchange.restored is not None
            self._on_begin(result.upstream_headers)
            return tuple(unfold(context.exchange.restored))
        if result.upstream_headers is not None:
            self._on_begin(result.upstream_headers)
        return self._collectors[-1].take()

    def close(self) -> None:
        self.flow.close()
        self._targets.charge_stream(self.context)
        self._targets.close()
