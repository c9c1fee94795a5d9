"""A chat without a terminal and without processes: the demo answers, and tools are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from io import StringIO
from typing import Any

from toolglot.agent.runner import OnProgress
from toolglot.agent.server_records import ServerState, ServerTool, ToolFailedError, server_tools
from toolglot.chat.screen import Screen
from toolglot.chat.session import Ask, ChatSession
from toolglot.chat.startup import ChatOptions, prepare_chat
from toolglot.config.schema import McpServerConfig
from toolglot.server.startup import StartOptions
from toolglot.upstream.transport import Reply, TransportError, UpstreamCall

Run = Callable[[dict[str, Any]], Awaitable[str]]
SERVER = "home"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def _weather(arguments: dict[str, Any]) -> str:
    return f"{arguments['city']}: sunny \x1b[2J"


async def _note(arguments: dict[str, Any]) -> str:
    return f"Kept: {arguments['text']}"


async def _broken(arguments: dict[str, Any]) -> str:
    raise ToolFailedError("it is broken")


class ScriptedHost:
    """One server: its weather only reads, its notes change something. `waits` never returns."""

    def __init__(self, state: ServerState | None = None) -> None:
        self.called: list[str] = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._state = state
        self._tools: dict[str, tuple[dict[str, Any], bool, Run]] = {
            "weather": (CITY, True, _weather),
            "add_note": (NOTE, False, _note),
            "break_glass": ({"type": "object"}, True, _broken),
            "wait_long": ({"type": "object"}, True, self._wait),
        }

    async def _wait(self, arguments: dict[str, Any]) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ""

    async def ready(self, names: Sequence[str]) -> None:
        return

    def states(self) -> list[ServerState]:
        return [self._state or ServerState(name=SERVER, state="ready", tools=4)]

    def tools(self, name: str) -> tuple[ServerTool, ...]:
        if self._state is not None:
            return ()
        listed = [
            {"name": name, "inputSchema": dict(schema), "annotations": {"readOnlyHint": reads}}
            for name, (schema, reads, _) in self._tools.items()
        ]
        return server_tools(SERVER, listed)

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: OnProgress | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        self.called.append(name)
        if on_progress is not None:
            on_progress(1, 2, "half\x1b[1A")
        return {"content": [{"type": "text", "text": await self._tools[name][2](arguments)}]}


class Nowhere:
    """The demo needs no network, so there is none."""

    async def send(self, call: UpstreamCall) -> Reply:
        raise TransportError("connect", "there is no network here")

    async def close(self) -> None:
        return


class Stage:
    """A session, and what is seen of it."""

    def __init__(self, session: ChatSession, host: ScriptedHost, seen: StringIO) -> None:
        self.session = session
        self.host = host
        self._seen = seen

    def seen(self) -> str:
        """What has been shown since the last time."""
        text = self._seen.getvalue()
        self._seen.seek(0)
        self._seen.truncate()
        return text


async def a_stage(
    ask: Ask | None = None, *, model: str = "demo", state: ServerState | None = None, effort: str | None = None
) -> Stage:
    start_options = StartOptions(discover=False, demo_pace="none")
    begun = await prepare_chat(ChatOptions(start_options=start_options, model=model, example=False), {}, Nowhere())
    host, seen = ScriptedHost(state), StringIO()
    servers = {SERVER: McpServerConfig(command="nothing")}
    screen = Screen(seen, seen)
    session = ChatSession(begun.gateway, host, servers, screen, model, ask=ask, effort=effort)
    return Stage(session, host, seen)
