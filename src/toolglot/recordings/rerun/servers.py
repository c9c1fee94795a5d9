"""The MCP servers of a recorded exchange: their tools, and the result of each call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.agent.host import McpHost
from toolglot.agent.server_records import HostTimings, ServerState, ServerTool, ToolFailedError, server_tools
from toolglot.agent.supervisor import ProgressCallback
from toolglot.config.schema import McpConfig
from toolglot.dialects import find
from toolglot.errors import DecodeError
from toolglot.recordings.format import ServedProgress, ServedResult
from toolglot.recordings.read import Recording
from toolglot.recordings.served_servers import RECORDED_LIMITS, AvailableServer, read_servers
from toolglot.wire import json

NOT_RECORDED = "no such call is recorded"

_FAILURES: dict[str, Callable[[str], Exception]] = {
    "failed": ToolFailedError,
    "late": lambda message: TimeoutError(),
    "broken": lambda message: RuntimeError("it broke when it was recorded"),
}


class RecordedToolCall(Struct, kw_only=True):
    """A recorded tool call: its progress and its outcome. Without a result the recording ends while it runs."""

    server: str
    tool: str
    arguments: Any = None
    """None if unknown."""
    progress: list[ServedProgress]
    result: ServedResult | None = None
    value: Any = None
    """The returned value."""
    next: float = 0.0
    """The recorded time of its next event, while it runs."""


class RecordedHost(McpHost):
    """Returns the recorded result of each call, in the recorded order. If the recording ends during a call, `leave` is
    called: the client disconnected there, or the rest is unknown."""

    def __init__(self, recording: Recording, leave: Callable[[], None]) -> None:
        super().__init__({}, pace=HostTimings(progress=0.0))
        self._servers = {each.server: each for each in available_servers(recording)}
        self._left = _recorded_calls(recording)
        self._running: list[RecordedToolCall] = []
        self._breaks_off = not recording.whole or (recording.end is not None and recording.end.cancelled)
        self._leave = leave

    async def ready(self, names: Iterable[str]) -> None:
        """Do nothing: the recorded state is final."""

    def state(self, name: str) -> ServerState:
        why = self._servers[name].missing
        return ServerState(name=name, state="ready" if why is None else "waiting", why=why)

    def tools(self, name: str) -> tuple[ServerTool, ...]:
        try:
            # Reading consumes the list.
            return server_tools(name, json.decode_frame(json.encode(self._servers[name].tools)))
        except DecodeError:
            return ()  # redaction left no tools

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: ProgressCallback | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        made = self._take_call(server, name, arguments)
        if made is None:
            if not self._breaks_off:
                raise ToolFailedError(NOT_RECORDED)
            made = RecordedToolCall(server=server, tool=name, progress=[])
        self._running.append(made)
        try:
            for said in made.progress:
                await self._wait_for_turn(made, said.at)
                if on_progress is not None:
                    on_progress(said.done, said.total, said.message)
            await self._wait_for_turn(made, inf if made.result is None else made.result.at)
            if made.result is None:
                self._leave()
                await asyncio.Event().wait()  # until that is noticed
        finally:
            self._running.remove(made)
        if made.result is not None and made.result.failure is not None:
            raise _FAILURES.get(made.result.failure, ToolFailedError)(made.result.message)
        value: dict[str, Any] = made.value
        return value

    async def _wait_for_turn(self, made: RecordedToolCall, at: float) -> None:
        """Wait until this is the next event of all running calls. One of them can always continue."""
        made.next = at
        await asyncio.sleep(0)  # lets the other calls of this round begin
        while any(other.next < at for other in self._running):
            await asyncio.sleep(0)

    def _take_call(self, server: str, name: str, arguments: dict[str, Any]) -> RecordedToolCall | None:
        """Take the first matching call that was not made yet. If there is none and no call can be missing, take one
        with other arguments.
        """
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


def _recorded_calls(recording: Recording) -> list[RecordedToolCall]:
    """Return the calls with their progress. Ids are the model's, and may repeat in another round: progress belongs to
    the next result. Raises `DecodeError`."""
    waiting: dict[str, list[ServedProgress]] = {}
    calls: list[RecordedToolCall] = []
    for line in recording.lines:
        if isinstance(line, ServedProgress):
            waiting.setdefault(line.call, []).append(line)
        elif isinstance(line, ServedResult):
            said, arguments = waiting.pop(line.call, []), _arguments(line.arguments)
            made = RecordedToolCall(server=line.server, tool=line.tool, arguments=arguments, progress=said, result=line)
            made.value = json.decode_frame(line.data) if line.failure is None else None
            calls.append(made)
    return [
        *calls,
        *(RecordedToolCall(server=said[0].server, tool=said[0].tool, progress=said) for said in waiting.values()),
    ]


def available_servers(recording: Recording) -> list[AvailableServer]:
    """Raises `DecodeError`."""
    return [] if recording.at_hand is None else read_servers(recording.at_hand)


def mcp_config(recording: Recording, rounds: int | None = None) -> McpConfig:
    """Return the configuration of the recorded servers. Servers that the client named are identified by the address it
    gave.

    Raises:
        DecodeError: it contains something that no configuration has.
    """
    if recording.at_hand is None:
        return McpConfig()
    known = {name: value for name, value in recording.at_hand.limits.items() if name in RECORDED_LIMITS}
    known |= {} if rounds is None else {"rounds": rounds}
    urls = _servers_in_request(recording)
    servers = {
        each.server: {
            "url": urls.get(each.label, f"http://{each.server}.invalid/"),
            "policy": each.policy,
            "tools": each.tool_policies,
        }
        for each in available_servers(recording)
    }
    try:
        return msgspec.convert({**known, "servers": servers}, McpConfig)
    except msgspec.ValidationError as error:
        raise DecodeError("served.tools", str(error)) from None


def _servers_in_request(recording: Recording) -> dict[str, str]:
    """Return the servers that the client's request names, with their addresses as written, redacted or not."""
    client = find(recording.head.client)
    if client.served is None:
        return {}
    try:
        asked = client.served.read_servers(client.decode_request(recording.request.data))
    except (DecodeError, RecursionError):
        return {}
    return {each.label: each.url for each in asked.servers if each.url is not None}
