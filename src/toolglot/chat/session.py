"""One chat: a conversation, its current model, and the servers whose tools that model gets.

All of it lives in one event loop. The client dialect of its exchanges is Anthropic's, which has a place for every
vendor's reasoning state; the next request may use any other model with the same content.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from secrets import token_hex
from typing import Literal, Protocol

from msgspec import Struct

from toolglot.agent.loop import LoopReporting, ToolLoop
from toolglot.agent.runner import ServedToolCall, ToolCaller, ToolRunner
from toolglot.agent.server_records import ServerState, ServerTool
from toolglot.agent.toolbox import AttachedServer, Toolbox, make_toolbox
from toolglot.chat import render_events
from toolglot.chat.answer_view import AnswerView, ScreenReporter
from toolglot.chat.conversation import LOST, STOPPED, ChatConversation, complete_results
from toolglot.chat.render_events import StyledLine
from toolglot.chat.safe_text import one_line
from toolglot.chat.screen import Screen
from toolglot.config.schema import McpServerConfig
from toolglot.dialects import RICHEST, find
from toolglot.errors import ToolglotError
from toolglot.events import Event
from toolglot.gateway.errors import FailedError
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.gateway_model import GatewayModel
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import Message, Request, ToolCall
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server.security import redact
from toolglot.tools.served import ServedCall

CLIENT = RICHEST
MAX_ERROR = 1_000

Consent = Literal["yes", "no", "always"]
Ask = Callable[[ServedCall], Awaitable[Consent]]


class ToolHost(ToolCaller, Protocol):
    """The part of a host that a chat needs."""

    async def ready(self, names: Sequence[str]) -> None: ...
    def states(self) -> list[ServerState]: ...
    def tools(self, name: str) -> tuple[ServerTool, ...]: ...


class ReceiptCollector:
    """Collects the receipts of a model: one answer may take several exchanges."""

    def __init__(self, model: GatewayModel, receipt: Receipt) -> None:
        self._model = model
        self._receipt = receipt
        self.exchanges = 0

    async def ask(self, request: Request) -> AsyncGenerator[Sequence[Event], None]:
        self.exchanges += 1
        try:
            async with aclosing(self._model.ask(request)) as answer:
                async for events in answer:
                    yield events
        finally:
            self._receipt.add(self._model.receipt)


class ModelTarget(Struct, frozen=True):
    """The target of a model's name."""

    upstream: str
    model: str
    dialect: str

    def __str__(self) -> str:
        return f"{self.dialect}, {self.upstream}/{self.model}"


class ChatSession:
    """A chat with a model. `ask` asks the user to approve a call; without it, the model is offered only tools that need
    no approval."""

    def __init__(
        self,
        gateway: Gateway,
        host: ToolHost,
        servers: Mapping[str, McpServerConfig],
        screen: Screen,
        model: str,
        *,
        ask: Ask | None = None,
        effort: str | None = None,
        system: str = "",
    ) -> None:
        self.gateway = gateway
        self.servers = servers
        self.model = model
        self.conversation = ChatConversation(system)
        self._host = host
        self._screen = screen
        self._ask = ask
        self._effort = effort
        self._tool_modes = ToolModes()
        self._always: set[tuple[str, str]] = set()
        self._receipt = Receipt()
        self._exchanges = 0
        self._told: set[str] = set()

    # ── queries ──

    def place(self, model: str | None = None) -> ModelTarget:
        """Return the target of a model's name. Raises `UnknownModelError`."""
        target: Target = self.gateway.router.resolve(model or self.model)[0]
        dialect = self.gateway.upstreams[target.upstream].dialect.name
        return ModelTarget(target.upstream, target.model, dialect)

    async def models(self) -> list[str]:
        return [model.name for model in await self.gateway.catalog.models()]

    async def tools(self) -> list[StyledLine]:
        await self._ready()
        known = {name: self._host.tools(name) for name in self.servers}
        states = [state for state in self._host.states() if state.name in self.servers]
        return render_events.server_lines(states, self.servers, known, self._always)

    def receipt(self) -> list[StyledLine]:
        return render_events.receipt_lines(tuple(self._receipt), self._exchanges)

    @property
    def losses(self) -> list[StyledLine]:
        """Losses of the last answer, for users who cannot ask for its receipt."""
        return render_events.receipt_lines(self._receipt.losses, self._exchanges) if self._receipt.losses else []

    # ── actions ──

    def switch(self, model: str) -> ModelTarget:
        """Switch to another model. Raises `UnknownModelError`."""
        place = self.place(model)
        self.model = model
        return place

    async def answer(self, text: str) -> bool:
        """Ask the model, show and keep its answer. Returns False if it is incomplete, which has been reported."""
        await self._ready()
        self._tell_absent()
        self.conversation.add_user_text(text)
        self._receipt, self._exchanges = Receipt(), 0
        began = asyncio.get_running_loop().time()
        view = AnswerView(self._screen)
        toolbox = self._toolbox()
        client, record = find(CLIENT), self._record(began)
        model = ReceiptCollector(
            GatewayModel(self.gateway, client, record, tool_modes=self._tool_modes, serves=toolbox.has), self._receipt
        )
        limits = self.gateway.config.mcp
        runner = ToolRunner(self._host, limits, None if self._ask is None else self._consents)
        loop = ToolLoop(model, toolbox, limits, runner, LoopReporting(teller=lambda: ScreenReporter(view)))
        try:
            error = await self._run(loop, view)
        except asyncio.CancelledError:
            self._keep(loop, view, STOPPED)
            raise
        finally:
            self._exchanges = model.exchanges
        self._keep(loop, view, LOST if error else "")
        if error:
            self._fail(error)
            return False
        seconds = asyncio.get_running_loop().time() - began
        self._screen.print_lines(
            *_end_notes(view, loop),
            render_events.end_line(self.model, loop.usage, self._told_losses, len(loop.outcomes), seconds),
        )
        return True

    @property
    def _told_losses(self) -> int:
        return self._receipt.loss_count if self._ask is not None else 0

    async def _run(self, loop: ToolLoop, view: AnswerView) -> str:
        """Run the request. Returns the error; empty if the whole answer arrived."""
        try:
            async with aclosing(loop.run(self.conversation.request(self.model, effort=self._effort))) as answer:
                async for events in answer:
                    view.show(events)
        except FailedError as error:
            return error.error.message
        except ToolglotError as error:
            return str(error)
        finally:
            view.break_off()
        if view.error is not None:
            return view.error.message
        return "" if view.stop is not None else "The answer did not end."

    def _keep(self, loop: ToolLoop, view: AnswerView, why: str) -> None:
        """Add this answer to the conversation."""
        results = [outcome.result for outcome in loop.outcomes]
        if why:
            kept = complete_results(loop.rounds, results, view.rest, why)
        else:
            kept = complete_results(loop.rounds or [Message(role="assistant", content=loop.seen)])
        self.conversation.add_answer(kept, self.model)
        if why == STOPPED:
            self.conversation.add_failure("The user stopped the answer.", self.model)

    def _fail(self, error: str) -> None:
        told = one_line(redact(error, self.gateway.secrets), MAX_ERROR)
        self.conversation.add_failure(told, self.model)
        self._screen.print_lines(StyledLine(f"Error: {told}", ("error",)))

    # ── tools ──

    def _toolbox(self) -> Toolbox:
        attached = [
            AttachedServer(label=name, server=name, config=config, tools=self._host.tools(name))
            for name, config in self.servers.items()
        ]
        return make_toolbox(attached, (), self._receipt, can_ask=lambda _: self._ask is not None)

    async def _consents(self, served: ServedToolCall) -> bool:
        tool = served.offered.tool
        if (tool.server, tool.name) in self._always:
            return True
        assert self._ask is not None
        consent = await self._ask(served.as_served_call)
        if consent == "always":
            self._always.add((tool.server, tool.name))
        return consent != "no"

    async def _ready(self) -> None:
        """Wait until the servers have started, and tell the user."""
        starting = [state.name for state in self._host.states() if state.state == "starting"]
        if waited := [name for name in starting if name in self.servers]:
            self._screen.print_lines(StyledLine(f"Starting {', '.join(waited)} …", ("faint",)))
        await self._host.ready(list(self.servers))

    def _tell_absent(self) -> None:
        """Report unavailable servers. Each is reported again only after it was available in between."""
        for state in self._host.states():
            if state.state == "ready" or state.name not in self.servers:
                self._told.discard(state.name)
            elif state.name not in self._told:
                self._told.add(state.name)
                why = f": {state.why}" if state.why else ""
                self._screen.print_lines(
                    StyledLine(one_line(f"MCP server {state.name} is {state.state}{why}", 500), ("error",))
                )

    def _record(self, began: float) -> RequestRecord:
        record = RequestRecord(id=f"req_{token_hex(12)}", method="CHAT", path="chat", route="chat", started=began)
        record.model, record.stream, record.client = self.model, True, CLIENT
        return record


_STOPS = {
    "length": "The answer was cut off: it reached the output limit.",
    "context_full": "The answer was cut off: the conversation fills the model's context window. Use /clear.",
    "refusal": "The model declined to answer.",
    "filtered": "A filter of the upstream cut off the answer.",
    "malformed_call": "The model wrote a tool call that could not be parsed.",
    "pause": "The model requested more tool calls, but the limit for one question is reached.",
}


def _end_notes(view: AnswerView, loop: ToolLoop) -> list[StyledLine]:
    """Return notes about an answer that did not end normally."""
    lines = [StyledLine(_STOPS[view.stop.reason], ("error",))] if view.stop and view.stop.reason in _STOPS else []
    unknown = [block.name for block in loop.seen if isinstance(block, ToolCall)]
    if unknown:
        names = ", ".join(one_line(name, 60) for name in unknown)
        lines.append(StyledLine(f"The model called tools that do not exist: {names}. No tool was run.", ("error",)))
    return lines
