"""One answer to a client's request: the flow that produces it, and the report about it.

`ClientAnswer.prepare` is the only place where features are wrapped around a flow. It is itself part of a flow: most
requests await nothing and are prepared immediately.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import time
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from toolglot.dialects import STORED
from toolglot.gateway.commands import Await, Command, Flow, Offload, Steps, WholeAnswer
from toolglot.gateway.features.conversation_replay import ConversationReplay
from toolglot.gateway.features.mcp_loop import McpAnswer, start_mcp_answer
from toolglot.gateway.features.reasoning_state import ReasoningState, with_reasoning_state
from toolglot.gateway.features.recording import record_store_reads
from toolglot.gateway.features.responses_turn import ResponsesTurn, with_responses_turn
from toolglot.gateway.features.separate_error import with_separate_error
from toolglot.gateway.flow import FlowContext, answer, result_of
from toolglot.gateway.known_heads import RequestHead
from toolglot.gateway.prefix_reuse import PrefixHashing
from toolglot.gateway.received import ReceivedRequest, decode_request
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.targets import RequestTargets
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import Response, replace
from toolglot.receipt import Receipt
from toolglot.server import headers
from toolglot.server.body_budget import BodyHold
from toolglot.server.credentials import hide_in_lines
from toolglot.server.json_array import wants_json_array
from toolglot.server.request_body import charge_body
from toolglot.store import Store
from toolglot.upstream.offload import LARGE, release

if TYPE_CHECKING:
    from toolglot.gateway.gateway import Gateway
    from toolglot.gateway.model_route import ModelRoute
    from toolglot.server.service import Service


class AnswerSource(Protocol):
    """The source of the answer: a model, a loop of model and tools, or the gateway itself."""

    def client_headers(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        """Return the headers of the answer. `upstream_headers` is None while no upstream has answered."""
        ...

    def note(self, context: FlowContext) -> None:
        """Write the known facts about the answer to its record and receipt."""
        ...

    def close(self) -> None: ...


class ReadyAnswer:
    """An answer that needs no model."""

    def __init__(self) -> None:
        self._receipt = Receipt()

    def flow(self, received: ReceivedRequest, response: Response) -> Flow:
        """Answer with one JSON document, even for a client that streams: Ollama's servers send one, and Open WebUI
        accepts no other content type here."""
        yield from ()
        return WholeAnswer(received.client.encode_response(response, received.request, self._receipt))

    def client_headers(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        return headers.describe_receipt(self._receipt)

    def note(self, context: FlowContext) -> None: ...

    def close(self) -> None: ...


NO_ANSWER = ReadyAnswer()
"""The source of an answer that is not prepared yet."""


class ClientAnswer(Struct, eq=False):
    service: Service
    gateway: Gateway
    head: RequestHead
    route: ModelRoute
    record: RequestRecord
    received: ReceivedRequest
    context: FlowContext
    hold: BodyHold | None
    """The share of the body budget that the request takes; None if it takes none."""
    source: AnswerSource = NO_ANSWER
    turn: ResponsesTurn | None = None

    def flow(self) -> Flow:
        """Return the answer, from its preparation to its end."""
        return (yield from (yield from self.prepare()))

    def prepare(self) -> Steps[Flow]:
        """Make the flow of the answer. Raises the error that the client gets instead of an answer."""
        service, route, received, context = self.service, self.route, self.received, self.context
        request, dialect, owner = received.request, received.client, self.record.owner
        if route.answer_without_model is not None and (ready := route.answer_without_model(request)) is not None:
            self.source = source = ReadyAnswer()
            return source.flow(received, replace(ready, created=int(time())))
        store = service.store if received.recording is None else record_store_reads(service.store, received.recording)
        received.lines = route.withheld
        if dialect.name == STORED:
            yield from self._begin_turn(store)
        tool_modes, replays = ToolModes(service.tool_support, store), ConversationReplay(store, owner)
        states = ReasoningState(store, owner)
        served: McpAnswer | None = None
        if route.may_have_servers(request, received.headers):
            served = yield from start_mcp_answer(
                service, self.gateway, received, context, route.targets[0], tool_modes, replays, states
            )
        if served is not None:
            self.source, flow = served, served.flow()
        else:
            prefix = PrefixHashing(self.gateway.prefixes)
            self.source = targets = RequestTargets(self.gateway, received, tool_modes, replays, states, prefix)
            context.when_sent = targets.hash_prefix
            flow = answer(context, targets.build(context, route.targets))
            if states.state_store is not None:
                flow = with_reasoning_state(flow, context, states)
        team, account = self.service.team, self.head.caller.account
        if team is not None and account is not None:
            from toolglot.gateway.features.metering import RequestMeter, with_metering  # most gateways have no team

            meter = RequestMeter(team, account, self.gateway.pricing, received, route.targets[0], self.source.note)
            flow = with_metering(flow, context, meter)
        if self.turn is not None and self.turn.is_active:
            flow = with_responses_turn(flow, context, self.turn)
        if request.stream and dialect.stream.apart and not wants_json_array(self.head.route, self.head.query):
            flow = with_separate_error(flow, context, dialect.stream.apart)
        return flow

    def _begin_turn(self, store: Store | None) -> Steps[None]:
        """Add the stored history to a request of the Responses API."""
        received, owner, keeps_state = self.received, self.record.owner, self.route.upstream_keeps_state
        begun, is_loaded = None, False
        if len(received.body) <= LARGE:
            begun = ResponsesTurn.begin_self_contained(received.body, store, owner, upstream_keeps_state=keeps_state)
        if begun is None:
            is_loaded = True
            begin = partial(ResponsesTurn.begin, STORED, received.body, store, owner, upstream_keeps_state=keeps_state)
            begun = yield from result_of(Await(begin))
        self.turn, body = begun
        received.lines = (*self.turn.unstored_lines, *received.lines)
        if body is received.body:
            return
        if is_loaded:
            yield from result_of(Await(partial(charge_body, self.hold, body, self.gateway.config.limits)))
        decode = partial(decode_request, received.client, body, self.head.route, self.head.values)
        received.request = decode() if len(body) <= LARGE else (yield from result_of(Offload(len(body), decode)))
        received.body = body

    def report(self) -> None:
        """Report the known facts about the answer. May be called again when more is known."""
        record, context, shown = self.record, self.context, self.head.credentials
        self.source.note(context)
        if (exchange := context.exchange) is not None:
            if self.turn is not None:
                self.turn.note_failure(exchange.receipt)
            lines = tuple(exchange.receipt) if exchange.receipt else ()
            self.service.receipts.keep(record, hide_in_lines(lines, shown) if shown and lines else lines)

    def release(self) -> None:
        """Free the parts of a large request after its answer."""
        received, exchange = self.received, self.context.exchange
        release(len(received.body), received.request.messages, *(() if exchange is None else exchange.stages))


def continue_preparation(steps: Steps[Flow], command: Command) -> Flow:
    """Return the flow of an answer whose preparation has to await something."""
    while True:
        outcome = yield command
        try:
            command = steps.send(outcome)
        except StopIteration as end:
            flow: Flow = end.value
            break
    return (yield from flow)
