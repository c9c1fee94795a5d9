"""The MCP servers of a recorded exchange: their tools of that moment, and what each call returned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.agent.host import Host
from toolglot.agent.keeper import Progress
from toolglot.agent.tools import Pace, ServerState, ServerTool, ToolFailedError, server_tools
from toolglot.config.schema import McpConfig
from toolglot.dialects import find
from toolglot.errors import DecodeError
from toolglot.recordings.format import ServedProgress, ServedResult
from toolglot.recordings.read import Recording
from toolglot.recordings.served import LIMITS, ServerAtHand, servers_of
from toolglot.wire import json

NOT_RECORDED = "no such call is recorded"

_FAILURES: dict[str, Callable[[str], Exception]] = {
    "failed": ToolFailedError,
    "late": lambda message: TimeoutError(),
    "broken": lambda message: RuntimeError("it broke when it was recorded"),
}


class Recorded(Struct, kw_only=True):
    """A call that was made: what it said, and how it ended. Without a result the recording ends while it runs."""

    server: str
    tool: str
    arguments: Any = None
    """None where nobody knows."""
    progress: list[ServedProgress]
    result: ServedResult | None = None
    value: Any = None
    """What it returned."""
    next: float = 0.0
    """When something comes of it, while it runs: the recorded time."""


class RecordedHost(Host):
    """Gives the recorded results, each call its own, in the order in which things happened. Where the recording ends
    in the middle of a call, `leave` is called: there the client went away, or nobody knows what came then."""

    def __init__(self, recording: Recording, leave: Callable[[], None]) -> None:
        super().__init__({}, pace=Pace(progress=0.0))
        self._servers = {each.server: each for each in at_hand(recording)}
        self._left = _calls(recording)
        self._running: list[Recorded] = []
        self._breaks_off = not recording.whole or (recording.end is not None and recording.end.cancelled)
        self._leave = leave

    async def ready(self, names: Iterable[str]) -> None:
        """They are as they were."""

    def state(self, name: str) -> ServerState:
        why = self._servers[name].missing
        return ServerState(name=name, state="ready" if why is None else "waiting", why=why)

    def tools(self, name: str) -> tuple[ServerTool, ...]:
        try:
            # Reading uses the list up.
            return server_tools(name, json.decode_frame(json.encode(self._servers[name].tools)))
        except DecodeError:
            return ()  # what was redacted in them has left no tools

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: Progress | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        made = self._taken(server, name, arguments)
        if made is None:
            if not self._breaks_off:
                raise ToolFailedError(NOT_RECORDED)
            made = Recorded(server=server, tool=name, progress=[])
        self._running.append(made)
        try:
            for said in made.progress:
                await self._turn(made, said.at)
                if on_progress is not None:
                    on_progress(said.done, said.total, said.message)
            await self._turn(made, inf if made.result is None else made.result.at)
            if made.result is None:
                self._leave()
                await asyncio.Event().wait()  # until that is noticed
        finally:
            self._running.remove(made)
        if made.result is not None and made.result.failure is not None:
            raise _FAILURES.get(made.result.failure, ToolFailedError)(made.result.message)
        value: dict[str, Any] = made.value
        return value

    async def _turn(self, made: Recorded, at: float) -> None:
        """Wait until nothing comes before it of the calls that run now. There is always one that goes on."""
        made.next = at
        await asyncio.sleep(0)  # the other calls of this round begin
        while any(other.next < at for other in self._running):
            await asyncio.sleep(0)

    def _taken(self, server: str, name: str, arguments: dict[str, Any]) -> Recorded | None:
        """The first such call that nobody has made yet; one with other arguments where there is no better one, and none
        can be missing."""
        alike = [each for each in self._left if (each.server, each.tool) == (server, name)]
        same = [each for each in alike if each.arguments is None or each.arguments == arguments]
        for made in (same or ([] if self._breaks_off else alike))[:1]:
            self._left.remove(made)
            return made
        return None


def _arguments(text: str) -> Any:
    try:
        return json.decode_frame(text.encode()) if text.strip() else {}
    except DecodeError:
        return None


def _calls(recording: Recording) -> list[Recorded]:
    """The calls with what each of them said. Ids are the model's, and may come again in another round: what was said
    before a result belongs to it. Raises `DecodeError`."""
    waiting: dict[str, list[ServedProgress]] = {}
    calls: list[Recorded] = []
    for line in recording.lines:
        if isinstance(line, ServedProgress):
            waiting.setdefault(line.call, []).append(line)
        elif isinstance(line, ServedResult):
            said, arguments = waiting.pop(line.call, []), _arguments(line.arguments)
            made = Recorded(server=line.server, tool=line.tool, arguments=arguments, progress=said, result=line)
            made.value = json.decode_frame(line.data) if line.failure is None else None
            calls.append(made)
    return [*calls, *(Recorded(server=said[0].server, tool=said[0].tool, progress=said) for said in waiting.values())]


def at_hand(recording: Recording) -> list[ServerAtHand]:
    """Raises `DecodeError`."""
    return [] if recording.at_hand is None else servers_of(recording.at_hand)


def mcp_of(recording: Recording, rounds: int | None = None) -> McpConfig:
    """The configuration of the recorded servers. Those that the client named are known by the address it gave.

    Raises:
        DecodeError: there is something in it that no configuration has.
    """
    if recording.at_hand is None:
        return McpConfig()
    known = {name: value for name, value in recording.at_hand.limits.items() if name in LIMITS}
    known |= {} if rounds is None else {"rounds": rounds}
    urls = _named(recording)
    servers = {
        each.server: {
            "url": urls.get(each.label, f"http://{each.server}.invalid/"),
            "policy": each.policy,
            "tools": each.tool_policies,
        }
        for each in at_hand(recording)
    }
    try:
        return msgspec.convert({**known, "servers": servers}, McpConfig)
    except msgspec.ValidationError as error:
        raise DecodeError("served.tools", str(error)) from None


def _named(recording: Recording) -> dict[str, str]:
    """The servers that the client's request names, with their addresses: as they stand there, redacted or not."""
    client = find(recording.head.client)
    if client.served is None:
        return {}
    try:
        asked = client.served.asked(client.decode_request(recording.request.data))
    except (DecodeError, RecursionError):
        return {}
    return {each.label: each.url for each in asked.servers if each.url is not None}
