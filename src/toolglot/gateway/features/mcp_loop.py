"""Answers with MCP tools that the gateway runs itself: a loop of model calls and tool calls, sent to the client as one
answer in its own dialect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from toolglot.agent.host import McpHost
from toolglot.agent.loop import CallModel, IssueApproval, LoopProgress, LoopReporting, RunTools, ToolLoop
from toolglot.agent.reasoning_report import ReasoningReport
from toolglot.agent.runner import CallOutcome, ToolRunner
from toolglot.agent.toolbox import AttachedServer, Toolbox, make_toolbox
from toolglot.config.schema import McpConfig
from toolglot.errors import ApiError, LossError, UpstreamError
from toolglot.events import Close, Delta, Event, Fault, Finish, Fold, Open, Start
from toolglot.gateway.commands import (
    RELEASE,
    Await,
    BeginStream,
    Command,
    Flow,
    Outcome,
    Shutdown,
    Silent,
    Steps,
    StreamEnd,
    WholeAnswer,
    Write,
)
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.conversation_replay import ConversationReplay
from toolglot.gateway.features.mcp_approvals import Approvals, fingerprint
from toolglot.gateway.features.mcp_rounds import McpRounds
from toolglot.gateway.features.mcp_servers import (
    RequestedServers,
    attach_servers,
    find_requested_servers,
    why_unavailable,
)
from toolglot.gateway.features.reasoning_state import ReasoningState
from toolglot.gateway.features.recorded_tools import ToolRecorder
from toolglot.gateway.features.recording import record_store_reads
from toolglot.gateway.flow import TRAILING_SECONDS, FlowContext, StoppedError, await_result, keep_alive, result_of
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.gateway_model import GatewayModel, ModelRound
from toolglot.gateway.received import ReceivedRequest, start_of_failure
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import Block, Opaque, Request, Text, Tool, ToolChoice, ToolResult, replace
from toolglot.missing_usage import characters_at_start, finish_with_usage, with_usage
from toolglot.passes.carry import move_before_call
from toolglot.passes.parameters import with_one_candidate
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server.logs import printable
from toolglot.server.service import Service
from toolglot.tools.served import RestoredHistory, ServedCall, ServedForms

log = logging.getLogger("toolglot.server")

_KNOWN = {
    True: "in the next turn the model knows what the client sends back",
    False: "in the next turn the model knows neither them nor the encrypted reasoning that led only to them",
}
"""State of served calls without a store, by whether the client has blocks to send them back in."""


def _admit_round(context: FlowContext, of_round: FlowContext) -> Steps[ApiError | None]:
    """Check a call of one round by the rules of the whole answer."""
    return None if context.admit is None else (yield from context.admit(of_round))


def start_mcp_answer(
    service: Service,
    gateway: Gateway,
    received: ReceivedRequest,
    context: FlowContext,
    target: Target,
    tool_modes: ToolModes,
    replays: ConversationReplay,
    states: ReasoningState,
) -> Steps[McpAnswer | None]:
    """Start the answer to a request that uses MCP servers; None if it uses none.

    Raises:
        FailedError, DecodeError: the request uses an unknown server, or its definition of one is invalid.
        LossError: the request is strict, and something is already lost.
    """
    record = context.record
    requested = find_requested_servers(gateway, received, target)
    if not requested.wanted or service.host is None:
        return None
    receipt = Receipt()
    attach = partial(attach_servers, service.host, gateway.config.mcp, requested.wanted, receipt)
    attached = yield from result_of(Await(attach))
    toolbox = _pack_toolbox(received, requested, attached, receipt)
    model = GatewayModel(
        gateway,
        received.client,
        record,
        tool_modes=tool_modes,
        replays=replays,
        states=states,
        received=received,
        serves=toolbox.has,
        admit=partial(_admit_round, context),
    )
    store = record_store_reads(service.store, received.recording)
    kept = McpRounds(store, record.owner, service.recent_failures)
    approvals = Approvals(service.approvals, store, service.peers, record.owner)
    limits = gateway.config.mcp
    answer = McpAnswer(
        received, context, requested, attached, toolbox, model, service.host, limits, kept, approvals, receipt
    )
    if received.strict and receipt.losses:
        raise LossError(receipt)
    return answer


async def add_served_tools(service: Service, gateway: Gateway, received: ReceivedRequest, target: Target) -> Request:
    """Add the tools of the request's MCP servers to it. Raises the same as `start_mcp_answer`."""
    requested = find_requested_servers(gateway, received, target)
    if not requested.wanted or service.host is None:
        return received.request
    receipt = Receipt()
    attached = await attach_servers(service.host, gateway.config.mcp, requested.wanted, receipt)
    toolbox = _pack_toolbox(received, requested, attached, receipt)
    return replace(requested.request, tools=(*requested.request.tools, *toolbox.tools))


def _pack_toolbox(
    received: ReceivedRequest, requested: RequestedServers, attached: Sequence[AttachedServer], receipt: Receipt
) -> Toolbox:
    taken = {tool.name for tool in requested.request.tools if isinstance(tool, Tool)}
    return make_toolbox(attached, taken, receipt, can_ask=lambda each: _can_ask_approval(received.client.served, each))


def _can_ask_approval(forms: ServedForms | None, attached: AttachedServer) -> bool:
    """Return whether the client named the server itself, in an API that has a form for approval requests."""
    return forms is not None and forms.encode_approval_request is not None and attached.asked is not None


class McpRound:
    """Runs the flow of a model's answer inside the flow of the client's answer."""

    def __init__(self, model_round: ModelRound, context: FlowContext) -> None:
        self._round = model_round
        self._context = context
        self._is_waiting = False
        """True if the flow waits for the next data from its upstream."""
        self._is_over = False

    def next_events(self) -> Steps[Sequence[Event] | None]:
        """Return the next events of the answer; None at its end."""
        if self._is_over:
            return None
        outcome: Outcome = None
        while True:
            if self._is_waiting:
                self._is_waiting = False
                outcome = yield from self._wait(b"")
            try:
                command = self._round.flow.send(outcome)
            except StopIteration as end:
                self._is_over = True
                return self._round.end(end.value) or None
            outcome = None
            if isinstance(command, (bytes, BeginStream, Write)):
                self._is_waiting = type(command) is bytes
                if events := self._round.take(command):
                    return events
            else:
                outcome = yield from self._wait(command)

    def _wait(self, command: Command) -> Steps[Outcome]:
        """Wait for the next event. Keep-alives are for the client, so they are written here."""
        outcome = yield command
        while type(outcome) is Silent and not self._is_trailing(outcome):
            outcome = yield from keep_alive(self._context, outcome)
        if type(outcome) is Shutdown:
            raise StoppedError(outcome.error)
        return outcome

    def _is_trailing(self, silent: Silent) -> bool:
        stream = self._round.context.stream
        return stream is not None and stream.settled and silent.upstream >= TRAILING_SECONDS

    def close(self) -> None:
        self._round.close()


class McpAnswer:
    """An answer with MCP tools."""

    def __init__(
        self,
        received: ReceivedRequest,
        context: FlowContext,
        requested: RequestedServers,
        attached: Sequence[AttachedServer],
        toolbox: Toolbox,
        model: GatewayModel,
        host: McpHost,
        limits: McpConfig,
        kept: McpRounds,
        approvals: Approvals,
        receipt: Receipt,
    ) -> None:
        self._received = received
        self.context = context
        self._request = with_one_candidate(requested.request, receipt, "a request with MCP tools gets one answer")
        self._chosen = requested.chosen
        self._attached = attached
        self._toolbox = toolbox
        self._forms = forms = received.client.served
        self._show = limits.show
        self._model = model
        self._rounds = kept
        self._approvals = approvals
        self._record = context.record
        self._receipt = receipt
        teller = ReasoningReport if forms is None else forms.new_reporter
        approval = None if forms is None else forms.encode_approval_request
        words = LoopReporting(
            teller=teller if limits.show else None,
            approval=approval,
            on_approval_request=self._issue_approval,
            move_state=None if forms is None else self._move_state,
        )
        self._tool_recorder = None if received.recording is None else ToolRecorder(received.recording)
        if self._tool_recorder is not None:
            why_not = [why_unavailable(host, each.server) for each in attached]
            self._tool_recorder.record_servers(attached, why_not, limits, keeps=kept.has_store)
        self._runner = ToolRunner(host, limits, watch=self._tool_recorder, pace=host.pace.progress)
        self._loop = ToolLoop(model, toolbox, limits, self._runner, words)
        self._encoder = received.client.stream_encoder(received.request, receipt)
        context.encode_fault = self._encode_error
        keepalive = self._encoder.keepalive()  # the same before and after the answer has begun
        context.encode_keepalive = lambda: keepalive
        self._characters = 0
        self._begun = False
        self._cuts = received.can_cut and received.client.stream.broken == "cut"
        self._is_cut = False

    def flow(self) -> Flow:
        context = self.context
        try:
            return (yield from (self._answer_stream() if context.is_streaming else self._answer_whole()))
        except Exception as failure:
            yield from self._keep_progress()
            # Once something was written, only the stream itself can report the error.
            if context.begun and (error := context.describe_failure(failure, context.record)) is not None:
                return context.end(error)
            if isinstance(failure, (FailedError, UpstreamError)) and self._has_changed_something:
                failure.error = replace(failure.error, should_retry=False)
            raise
        finally:
            self._runner.cancel()
            if self._loop.progress is not None:  # the client has left
                now = context.environment.wall_clock()
                self._rounds.remember_progress(self._request, self._loop.progress, now)

    @property
    def _has_changed_something(self) -> bool:
        """Has a tool run that does more than read? An SDK that sends the request again would run it again."""
        return any(each.ran and not each.served.offered.tool.read_only for each in self._loop.outcomes)

    def _answer_stream(self) -> Steps[StreamEnd]:
        yield from self._run_loop(self._write_events)
        return StreamEnd(b"", self._is_cut)

    def _write_events(self, events: Sequence[Event]) -> Steps[None]:
        is_broken = self._cuts and self._model.is_broken
        self._is_cut = is_broken and any(isinstance(event, Fault) for event in events)
        data = b"".join([self._encode(event) for event in events if not self._is_left_out(event)])
        if not self.context.begun:
            self.context.begun = True
            yield BeginStream(self._model.upstream_headers or {})
        if data:
            yield Write(data)

    def _encode(self, event: Event) -> bytes:
        match event:
            case Delta(text=text):
                self._characters += len(text)
            case Open(block=block):
                self._characters += characters_at_start(block)
            case Finish():
                event = finish_with_usage(event, self._characters, self._request, self._received.client, self._receipt)
            case Start():
                self._begun = True
            case Fault():
                return self._encode_failure(self._hide_secrets(event))
            case _:
                pass
        return self._encoder.feed(event)

    def _is_left_out(self, event: Event) -> bool:
        return self._is_cut and (isinstance(event, Fault) or (isinstance(event, Close) and not event.complete))

    def _answer_whole(self) -> Steps[WholeAnswer]:
        accumulator, received = Fold(), self._received

        def collect(events: Sequence[Event]) -> Steps[None]:
            for event in events:
                accumulator.add(self._hide_secrets(event))
            yield from ()

        yield from self._run_loop(collect)
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        response = with_usage(accumulator.response(), received.request, received.client, self._receipt)
        written = received.client.encode_response(response, received.request, self._receipt)
        if received.strict and self._receipt.losses:
            raise LossError(self._receipt)
        return WholeAnswer(written, self._model.upstream_headers or {})

    def client_headers(self, context: FlowContext, upstream_headers: Mapping[str, str] | None) -> dict[str, str]:
        if self._model.exchange is not None and upstream_headers is not None:
            self._model.exchange.receipt.add(self._receipt)
        return self._model.client_headers(upstream_headers)

    def _encode_error(self, context: FlowContext, error: ApiError) -> bytes:
        return self._encode_failure(Fault(error))

    def _encode_failure(self, fault: Event) -> bytes:
        """Encode an error. Some clients need the start of an answer before it."""
        start = b""
        if not self._begun and self._received.client.stream.early_failures:
            self._begun = True
            start = self._encoder.feed(start_of_failure(self._received, self._record, self._model.exchange))
        return start + self._encoder.feed(fault)

    def note(self, context: FlowContext) -> None:
        self._record.usage = self._loop.usage
        for call in self._loop.left_out:
            self._receipt.note("mcp", f"call to {call.name} not run", "the answer ended before its turn")
        context.exchange = self._model.exchange
        if context.exchange is not None:
            context.exchange.receipt.add(self._receipt)

    def close(self) -> None: ...

    def _run_loop(self, tell: Callable[[Sequence[Event]], Steps[None]]) -> Steps[None]:
        """Run the loop and send its events to the client."""
        context = self.context
        restored, earlier = yield from await_result(context, self._restore_history)
        if earlier is None:
            approved, unapproved = yield from await_result(context, partial(self._redeem_approvals, restored.approved))
            steps = self._loop.steps(restored.request, approved, self._list_tools(restored), unapproved)
        else:
            steps = self._loop.steps(restored.request, earlier=earlier)
            self._report_earlier(earlier)
        running: Callable[[], Steps[Any]] | None = None
        asked: McpRound | None = None
        outcome, reported = None, 0
        try:
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration:
                    return
                for each in self._loop.outcomes[reported:]:
                    self._report_call(each)
                outcome, reported = None, len(self._loop.outcomes)
                if isinstance(step, IssueApproval):
                    yield from await_result(context, partial(self._loop.issue_approval, step))
                    continue
                if isinstance(step, (CallModel, RunTools)):
                    if asked is not None:
                        yield RELEASE  # the answer is complete, even if the upstream's connection is still open
                        asked.close()
                        asked = None
                    if isinstance(step, CallModel):
                        asked = McpRound(self._model.begin_round(step.request), context)
                        running = asked.next_events
                    else:
                        news = self._runner.run(step.calls, step.deadline)
                        running = partial(await_result, context, partial(anext, news, None))
                elif step:
                    yield from self._end_answer(step)
                    yield from tell(step)
                if running is not None and (outcome := (yield from running())) is None:
                    running = None
        finally:
            if asked is not None:
                asked.close()

    def _end_answer(self, events: Sequence[Event]) -> Steps[None]:
        for event in events:
            if isinstance(event, Fault):
                yield from self._keep_progress()
            if isinstance(event, Finish):
                self._record.stop = event.stop.reason
                # Before the client can continue the conversation.
                yield from await_result(self.context, self._store_rounds)

    def _move_state(self, block: Block) -> Block | None:
        client = self._received.client
        return move_before_call(block, client.name, client.state.slot)

    async def _issue_approval(self, call: ServedCall, question: Block) -> None:
        request_id = question.value.get("id") if isinstance(question, Opaque) else ""
        await self._approvals.issue(self._fingerprint(call, str(request_id)))

    async def _redeem_approvals(self, calls: Sequence[ServedCall]) -> tuple[list[ServedCall], list[ServedCall]]:
        """Split calls into those with a valid approval and those without."""
        valid: list[ServedCall] = []
        others: list[ServedCall] = []
        for call in calls:
            if await self._approvals.redeem(self._fingerprint(call, call.approval or "")):
                valid.append(call)
                continue
            others.append(call)
            why = "no open request of this gateway to this key has its id, tool and arguments; the call was not run"
            self._receipt.note(f"mcp.{call.server}", f"approval of {call.name}", why)
        return valid, others

    def _fingerprint(self, call: ServedCall, request_id: str) -> str:
        """Return the fingerprint of a call. It contains the configured server, because the client chooses the label."""
        servers = {each.label: each.server for each in self._attached}
        return fingerprint(request_id, servers.get(call.server, ""), call.name, call.arguments)

    async def _restore_history(self) -> tuple[RestoredHistory, LoopProgress | None]:
        """Restore the calls and results that the client did not send, or sent in its own form, and the progress of an
        answer to the same request that failed."""
        request, earlier = await self._rounds.restore(self._request, self.context.environment.wall_clock())
        restored = RestoredHistory(request=request)
        if self._forms is not None:
            restored = self._forms.restore_history(request, self._toolbox.offered_name)
            if request is not self._request:  # stored rounds do not contain the tool lists that the client has seen
                listed = self._forms.restore_history(self._request, self._toolbox.offered_name).listed
                restored = replace(restored, listed=listed)
        return replace(restored, request=self._with_choice(restored.request)), earlier

    def _report_earlier(self, earlier: LoopProgress) -> None:
        for message in earlier.messages:
            for block in message.content:
                if isinstance(block, ToolResult):
                    why = "it ran for an answer to the same request, which failed"
                    self._receipt.note("mcp", f"call {block.call_id} not run again", why)

    def _with_choice(self, request: Request) -> Request:
        """Add the served tools that the request chooses to its tool choice, under the model's names."""
        if not self._chosen:
            return request
        choice = request.tool_choice or ToolChoice(mode="required")
        names = [
            each.name
            for label, tool in self._chosen
            for each in self._toolbox.offered
            if each.label == label and tool in (None, each.tool.name)
        ]
        return replace(request, tool_choice=replace(choice, names=(*choice.names, *names)))

    def _list_tools(self, restored: RestoredHistory) -> list[Block]:
        """Return tool lists for clients that named the servers and have not seen the lists yet."""
        if self._forms is None or not self._show:
            return []
        blocks: list[Block] = []
        for each in self._attached:
            if each.asked is not None and each.label not in restored.listed:
                tools = [offered.tool.tool for offered in self._toolbox.offered if offered.label == each.label]
                if (block := self._forms.encode_tool_list(each.label, tools)) is not None:
                    blocks.append(block)
        return blocks

    def _report_call(self, outcome: CallOutcome) -> None:
        """Report a call in the receipt, the log and the metrics, without its content."""
        tool, label = outcome.served.offered.tool, outcome.served.offered.label
        how = "was not run" if not outcome.ran else "failed" if outcome.result.is_error else "ran"
        self._receipt.note(f"mcp.{label}", f"{tool.name} ({outcome.served.call.id})", f"{how} here")
        if outcome.ran:
            self._record.count_served(tool.server, failed=bool(outcome.result.is_error))
        if self._tool_recorder is not None:
            self._tool_recorder.record_call(outcome)
        words = (self._record.id, printable(tool.name[:100]), tool.server, how, outcome.seconds)
        log.info("request %s: the tool %s of %s %s, %.3f s", *words)

    def _keep_progress(self) -> Steps[None]:
        """Save the progress of a failing answer, before the client can repeat its request."""
        if self._loop.progress is None:
            return
        now = self.context.environment.wall_clock()
        keep = partial(self._rounds.store_progress, self._request, self._loop.progress, now)
        if not (yield from result_of(Await(keep))):
            why = "they are too large to be kept: they run again if the client repeats its request"
            self._receipt.note("mcp", "calls of an answer that failed", why)
        self._loop.progress = None

    async def _store_rounds(self) -> None:
        if not self._loop.rounds or self._loop.asks:
            return
        if not await self._rounds.store(self._request.messages, self._loop.seen, self._loop.rounds):
            is_sent_back = self._forms is not None and self._show
            self._receipt.note("mcp", "calls and results", f"there is no store to keep them in: {_KNOWN[is_sent_back]}")
            if is_sent_back and any(
                type(block) is not Text for each in self._loop.outcomes for block in each.result.content
            ):
                why = "the client has a description in their place: the model reads that in the next turn"
                self._receipt.note("mcp", "results that are not text", why)

    def _hide_secrets(self, event: Event) -> Event:
        exchange = self._model.exchange
        return Fault(exchange.hide(event.error)) if isinstance(event, Fault) and exchange is not None else event
