"""Answers with MCP tools that the gateway runs itself: a loop of rounds with the model, told to the client as one
answer in its own words."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from toolglot.agent.host import Host
from toolglot.agent.loop import Loop, Words
from toolglot.agent.runner import Outcome, Runner
from toolglot.agent.telling import Aside
from toolglot.agent.toolbox import Attached, Toolbox, pack
from toolglot.config.schema import McpConfig
from toolglot.errors import ApiError, LossError, UpstreamError
from toolglot.events import Close, Delta, Event, Fault, Finish, Fold, Start
from toolglot.ir import Block, Opaque, Request, Tool, ToolChoice, replace
from toolglot.missing_usage import finish_with_usage, with_usage
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.approvals import Approvals, fingerprint
from toolglot.server.attaching import RequestedServers, attach, find_requested_servers, missing
from toolglot.server.attempts import Asked, start_of_failure
from toolglot.server.calling import Calling
from toolglot.server.gateway import Gateway
from toolglot.server.logs import printable
from toolglot.server.model import GatewayModel
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.rounds import KeptRounds
from toolglot.server.service import Service
from toolglot.server.states import States
from toolglot.server.taped_store import taped
from toolglot.server.taped_tools import TapedTools
from toolglot.tools.served import Restored, ServedCall, ServedForms
from toolglot.translate import Exchange

log = logging.getLogger("toolglot.server")


async def serve(
    service: Service,
    gateway: Gateway,
    asked: Asked,
    target: Target,
    record: Record,
    calling: Calling,
    replays: Replays,
    states: States,
) -> Serving | None:
    """The answer to a request for which tools are run here; None where there are none.

    Raises:
        FailedError, DecodeError: it wants a server that is not there, or says so in a way that makes no sense.
    """
    requested = find_requested_servers(gateway, asked, target, record.key)
    if not requested.wanted or service.host is None:
        return None
    receipt = Receipt()
    attached = await attach(service.host, gateway.config.mcp, requested.wanted, receipt)
    toolbox = _packed(asked, requested, attached, receipt)
    model = GatewayModel(
        gateway,
        asked.client,
        record,
        calling=calling,
        replays=replays,
        states=states,
        asked=asked,
        serves=toolbox.has,
    )
    store = taped(service.store, asked.tape)
    kept, approvals = KeptRounds(store, record.owner), Approvals(service.approvals, store, service.peers, record.owner)
    limits = gateway.config.mcp
    return Serving(asked, requested, attached, toolbox, model, service.host, limits, kept, approvals, record, receipt)


async def with_tools(service: Service, gateway: Gateway, asked: Asked, target: Target, key: str | None) -> Request:
    """The request as a model is asked it first, with the tools that are served for it. Raises as `serve` does."""
    requested = find_requested_servers(gateway, asked, target, key)
    if not requested.wanted or service.host is None:
        return asked.request
    receipt = Receipt()
    attached = await attach(service.host, gateway.config.mcp, requested.wanted, receipt)
    toolbox = _packed(asked, requested, attached, receipt)
    return replace(requested.request, tools=(*requested.request.tools, *toolbox.tools))


def _packed(asked: Asked, requested: RequestedServers, attached: Sequence[Attached], receipt: Receipt) -> Toolbox:
    taken = {tool.name for tool in requested.request.tools if isinstance(tool, Tool)}
    return pack(attached, taken, receipt, can_ask=lambda each: _can_ask(asked.client.served, each))


def _can_ask(forms: ServedForms | None, attached: Attached) -> bool:
    """The client named the server itself, in words that have a question for it."""
    return forms is not None and forms.approval is not None and attached.asked is not None


class Serving:
    """A `Source` of such an answer."""

    def __init__(
        self,
        asked: Asked,
        requested: RequestedServers,
        attached: Sequence[Attached],
        toolbox: Toolbox,
        model: GatewayModel,
        host: Host,
        limits: McpConfig,
        kept: KeptRounds,
        approvals: Approvals,
        record: Record,
        receipt: Receipt,
    ) -> None:
        self._asked = asked
        self._request = requested.request
        self._chosen = requested.chosen
        self._attached = attached
        self._toolbox = toolbox
        self._forms = forms = asked.client.served
        self._show = limits.show
        self._model = model
        self._kept = kept
        self._approvals = approvals
        self._record = record
        self._receipt = receipt
        teller = Aside if forms is None else forms.teller
        approval = None if forms is None else forms.approval
        words = Words(
            teller=teller if limits.show else None, approval=approval, on_approval_request=self._issue_approval
        )
        self._tape = None if asked.tape is None else TapedTools(asked.tape)
        if self._tape is not None:
            why_not = [missing(host, each.server) for each in attached]
            self._tape.at_hand(attached, why_not, limits, keeps=kept.keeps)
        runner = Runner(host, limits, watch=self._tape, pace=host.pace.progress)
        self._loop = Loop(model, toolbox, limits, runner, words)
        self.encoder = asked.client.stream_encoder(asked.request, receipt)
        self._characters = 0
        self._begun = False
        self._cuts = asked.can_cut and asked.client.stream.broken == "cut"
        self.is_cut = False

    @property
    def exchange(self) -> Exchange | None:
        return self._model.exchange

    @property
    def waiting(self) -> bool:
        return self._model.waiting

    async def stream(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._events()) as answer:
            async for events in answer:
                self.is_cut = self._cuts and any(isinstance(event, Fault) for event in events) and self._is_broken
                yield b"".join([self._encode(event) for event in events if not self._is_cut(event)])

    def _encode(self, event: Event) -> bytes:
        match event:
            case Delta(text=text):
                self._characters += len(text)
            case Finish():
                event = finish_with_usage(event, self._characters, self._request, self._asked.client, self._receipt)
            case Start():
                self._begun = True
            case Fault():
                return self._encode_failure(self._hidden(event))
            case _:
                pass
        return self.encoder.feed(event)

    @property
    def _is_broken(self) -> bool:
        """The upstream broke off in the middle of the round's answer."""
        translation = None if self._model.answer is None else self._model.answer.translation
        return translation is not None and translation.broken

    def _is_cut(self, event: Event) -> bool:
        return self.is_cut and (isinstance(event, Fault) or (isinstance(event, Close) and not event.complete))

    async def whole(self) -> bytes:
        accumulator = Fold()
        async with aclosing(self._events()) as answer:
            async for events in answer:
                for event in events:
                    accumulator.add(self._hidden(event))
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        asked = self._asked
        response = with_usage(accumulator.response(), asked.request, asked.client, self._receipt)
        written = asked.client.encode_response(response, asked.request, self._receipt)
        if self._asked.strict and self._receipt.losses:
            raise LossError(self._receipt)
        return written

    def headers(self) -> Mapping[str, str]:
        answer = self._model.answer
        assert answer is not None
        answer.exchange.receipt.add(self._receipt)
        return headers.of_exchange(answer.exchange, answer.headers, self._record)

    def fail(self, error: ApiError) -> bytes:
        return self._encode_failure(Fault(error))

    def _encode_failure(self, fault: Event) -> bytes:
        """The error, behind the beginning of an answer where the client needs one and has none yet."""
        start = b""
        if not self._begun and self._asked.client.stream.early_failures:
            self._begun = True
            start = self.encoder.feed(start_of_failure(self._asked, self._record, self.exchange))
        return start + self.encoder.feed(fault)

    async def settle(self) -> None:
        """Each round has tidied up behind itself."""

    def close(self) -> None:
        """Each round has closed what it opened."""

    def note(self) -> None:
        self._record.usage = self._loop.usage
        for call in self._loop.left_out:
            self._receipt.note("mcp", f"call to {call.name} not run", "the answer ended before its turn")
        if self._model.exchange is not None:
            self._model.exchange.receipt.add(self._receipt)

    async def _events(self) -> AsyncGenerator[Sequence[Event], None]:
        restored = await self._restored()
        first = self._listed(restored)
        told = 0
        approved, unapproved = await self._redeemed(restored.approved)
        async with aclosing(self._loop.run(restored.request, approved, first, unapproved)) as answer:
            async for events in answer:
                for outcome in self._loop.outcomes[told:]:
                    self._tell(outcome)
                told = len(self._loop.outcomes)
                for event in events:
                    if isinstance(event, Finish):
                        self._record.stop = event.stop.reason
                        await self._keep()  # before the client can go on from it
                yield events

    async def _issue_approval(self, call: ServedCall, question: Block) -> None:
        request_id = question.value.get("id") if isinstance(question, Opaque) else ""
        await self._approvals.issue(self._fingerprint(call, str(request_id)))

    async def _redeemed(self, calls: Sequence[ServedCall]) -> tuple[list[ServedCall], list[ServedCall]]:
        """The calls that the client has approved, and those for which it only says so."""
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
        """A label is the client's own word: the server that it stands for counts."""
        servers = {each.label: each.server for each in self._attached}
        return fingerprint(request_id, servers.get(call.server, ""), call.name, call.arguments)

    async def _restored(self) -> Restored:
        """The request as the model is asked: with what the client has not seen, or has seen in its own words."""
        request = await self._kept.restored(self._request)
        restored = Restored(request=request)
        if self._forms is not None:
            restored = self._forms.restored(request, self._toolbox.name_of)
            if request is not self._request:  # what is kept does not have what the client was told beside it
                listed = self._forms.restored(self._request, self._toolbox.name_of).listed
                restored = replace(restored, listed=listed)
        return replace(restored, request=self._with_choice(restored.request))

    def _with_choice(self, request: Request) -> Request:
        """The request's choice with the served tools that it names, in the model's words."""
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

    def _listed(self, restored: Restored) -> list[Block]:
        """The servers' tools, for clients that named the servers and have not been told yet."""
        if self._forms is None or not self._show:
            return []
        blocks: list[Block] = []
        for each in self._attached:
            if each.asked is not None and each.label not in restored.listed:
                tools = [offered.tool.tool for offered in self._toolbox.offered if offered.label == each.label]
                if (block := self._forms.listed(each.label, tools)) is not None:
                    blocks.append(block)
        return blocks

    def _tell(self, outcome: Outcome) -> None:
        """What was run is in the receipt, the log and the metrics; of what it said there is nothing there."""
        tool, label = outcome.served.offered.tool, outcome.served.offered.label
        how = "was not run" if not outcome.ran else "failed" if outcome.result.is_error else "ran"
        self._receipt.note(f"mcp.{label}", f"{tool.name} ({outcome.served.call.id})", f"{how} here")
        if outcome.ran:
            self._record.count_served(tool.server, failed=bool(outcome.result.is_error))
        if self._tape is not None:
            self._tape.served(outcome)
        words = (self._record.id, printable(tool.name[:100]), tool.server, how, outcome.seconds)
        log.info("request %s: the tool %s of %s %s, %.3f s", *words)

    async def _keep(self) -> None:
        if not self._loop.rounds or self._loop.asks:
            return
        if not await self._kept.keep(self._request.messages, self._loop.seen, self._loop.rounds):
            why = "there is no store to keep them in: in the next turn the model knows what the client sends back"
            self._receipt.note("mcp", "calls and results", why)

    def _hidden(self, event: Event) -> Event:
        exchange = self._model.exchange
        return Fault(exchange.hide(event.error)) if isinstance(event, Fault) and exchange is not None else event
