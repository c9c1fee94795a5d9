"""A model that says what a script says, and servers whose tools are functions: what a loop stands between."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from toolglot.agent.loop import LoopReporting, ToolLoop
from toolglot.agent.runner import Approve, OnProgress, ToolRunner
from toolglot.agent.server_records import ServerTool
from toolglot.agent.toolbox import AttachedServer, Toolbox, make_toolbox
from toolglot.config.schema import McpConfig, McpServerConfig
from toolglot.events import Checker, Event, Fold, unfold
from toolglot.ir import Block, Message, Request, Response, Stop, Text, Tool, ToolCall, Usage
from toolglot.receipt import Receipt

ASKED = Request(model="m", messages=(Message(role="user", content=(Text(text="Go on."),)),))


def call(name: str, arguments: str = "{}", *, number: str = "", complete: bool = True) -> ToolCall:
    return ToolCall(id=number or f"call_{name}", name=name, arguments=arguments, complete=complete)


def says(*blocks: Block | str, stop: Stop | None = None) -> Response:
    """An answer; it stops for its calls if it has some."""
    content = tuple(Text(text=block) if isinstance(block, str) else block for block in blocks)
    calls = any(isinstance(block, ToolCall) for block in content)
    usage = Usage(input_tokens=10, output_tokens=3)
    return Response(
        id="r", model="m", content=content, stop=stop or Stop("tool_calls" if calls else "end"), usage=usage
    )


class ScriptedModel:
    """Answers with the script's answers, one after the other, and keeps what it was asked."""

    def __init__(self, *answers: Response | Sequence[Event]) -> None:
        self._answers = list(answers)
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> AsyncGenerator[Sequence[Event], None]:
        self.asked.append(request)
        answer = self._answers.pop(0)
        for event in unfold(answer) if isinstance(answer, Response) else answer:
            yield [event]


Function = Callable[[dict[str, Any], OnProgress], Awaitable[dict[str, Any]]]


class ScriptedServers:
    """Servers by name, each with its tools."""

    def __init__(self, servers: Mapping[str, Mapping[str, Function]]) -> None:
        self.servers = servers
        self.called: list[tuple[str, str, dict[str, Any]]] = []

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: OnProgress | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        self.called.append((server, name, arguments))
        return await self.servers[server][name](arguments, on_progress or (lambda *_: None))

    def attached(self, **config: Any) -> list[AttachedServer]:
        return [
            AttachedServer(
                label=server,
                server=server,
                config=McpServerConfig(**{"command": "x", "policy": "auto", **config}),
                tools=tuple(ServerTool(server=server, name=name, tool=Tool(name=name)) for name in tools),
            )
            for server, tools in self.servers.items()
        ]


def text(words: str, **more: Any) -> dict[str, Any]:
    """What a tool returns."""
    return {"content": [{"type": "text", "text": words}], **more}


def returns(words: str) -> Function:
    async def function(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        return text(words)

    return function


def toolbox_of(servers: ScriptedServers, can_ask: bool = False, **config: Any) -> Toolbox:
    return make_toolbox(servers.attached(**config), (), Receipt(), can_ask=lambda _: can_ask)


def loop_of(
    model: ScriptedModel,
    servers: ScriptedServers,
    limits: McpConfig | None = None,
    words: LoopReporting | None = None,
    approve: Approve | None = None,
    **config: Any,
) -> ToolLoop:
    limits = limits or McpConfig()
    can_ask = approve is not None or (words is not None and words.approval is not None)
    toolbox = toolbox_of(servers, can_ask=can_ask, **config)
    return ToolLoop(model, toolbox, limits, ToolRunner(servers, limits, approve), words or LoopReporting())


async def answer_of(loop: ToolLoop, request: Request = ASKED, **more: Any) -> Response:
    """The whole answer of a loop, whose events are checked on the way."""
    checker, accumulator = Checker(sequential=True), Fold()
    async for events in loop.run(request, **more):
        for event in events:
            checker.add(event)
            accumulator.add(event)
    checker.close()
    return accumulator.response()
