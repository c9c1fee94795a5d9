"""The MCP servers of a configuration: starts and restarts them, lists and calls their tools.

One task owns each server's connection. A server that dies is restarted with increasing delays, without affecting the
others. The `mcp` package is an extra, loaded when the first server starts.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolglot.agent.server_records import HostTimings, ServerState, ServerTool, ToolFailedError
from toolglot.agent.supervisor import ProgressCallback, ServerSupervisor
from toolglot.config.schema import McpServerConfig
from toolglot.errors import MissingExtraError


class McpHost:
    """The servers by name. `call` may be used from any task, everything else from the owning task."""

    def __init__(
        self,
        servers: Mapping[str, McpServerConfig],
        *,
        pace: HostTimings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pace = pace or HostTimings()
        self._clock = clock
        self._generations = itertools.count(1)
        self._keepers = {name: self._make_supervisor(name, config) for name, config in servers.items()}
        self._busy = asyncio.Lock()
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Start all servers without waiting for them.

        Raises:
            MissingExtraError: there are some, and the package `mcp` is not installed.
        """
        async with self._busy:
            if self._started or self._closed:
                return
            _require_sdk(self._keepers)
            self._started = True
            for keeper in self._keepers.values():
                keeper.start()

    async def close(self) -> None:
        """Stop all servers and their child processes, in bounded time."""
        async with self._busy:
            self._closed = True
            await _stop_all(self._keepers.values())

    async def update(self, servers: Mapping[str, McpServerConfig]) -> None:
        """Apply another configuration: unchanged servers keep running.

        Raises:
            MissingExtraError: there are some, and the package `mcp` is not installed.
        """
        async with self._busy:
            if self._closed:
                return
            if self._started:
                _require_sdk(servers)
            before = self._keepers
            kept = {
                name: before[name] for name in servers if name in before and before[name].apply_config(servers[name])
            }
            self._keepers = {name: kept.get(name) or self._make_supervisor(name, servers[name]) for name in servers}
            await _stop_all(keeper for keeper in before.values() if keeper not in kept.values())
            if self._started:
                for name, keeper in self._keepers.items():
                    if name not in kept:
                        keeper.start()

    async def ready(self, names: Iterable[str]) -> None:
        """Wait until each of these is ready or has failed once, up to its start timeout."""
        keepers = [self._keepers[name] for name in names if name in self._keepers]
        if self._started and not self._closed:
            await asyncio.gather(*(keeper.wait_settled() for keeper in keepers))

    def state(self, name: str) -> ServerState:
        """Return the state of the server; `closed` if it is not in the configuration."""
        keeper = self._keepers.get(name)
        if keeper is None:
            return ServerState(name=name, state="closed", why="it is no longer configured")
        return keeper.state

    def states(self) -> list[ServerState]:
        return [keeper.state for keeper in self._keepers.values()]

    def tools(self, name: str) -> tuple[ServerTool, ...]:
        """Return the tools that the server currently offers; empty until it is ready."""
        keeper = self._keepers.get(name)
        return keeper.tools if keeper is not None else ()

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: ProgressCallback | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        """Return a tool's result as MCP's JSON. Canceling this cancels the call at the server. With the `generation` of
        a `ServerTool`, a different server that now has the same name is not called.

        Raises:
            ToolFailedError: there is no result: a dead or replaced server, a protocol error, a timeout.
        """
        keeper = self._keepers.get(server)
        if keeper is None:
            raise ToolFailedError(f"there is no MCP server {server!r}")
        if generation is not None and generation != keeper.generation:
            raise ToolFailedError(f"MCP server {server} was replaced by another one meanwhile")
        return await keeper.call(name, arguments, on_progress)

    def _make_supervisor(self, name: str, config: McpServerConfig) -> ServerSupervisor:
        return ServerSupervisor(name, config, self.pace, self._clock, next(self._generations))


def _require_sdk(servers: Iterable[str]) -> None:
    if any(True for _ in servers) and importlib.util.find_spec("mcp") is None:
        raise MissingExtraError("an MCP server in the configuration", "mcp", "mcp")


async def _stop_all(keepers: Iterable[ServerSupervisor]) -> None:
    await asyncio.gather(*(keeper.stop() for keeper in keepers))
