"""The MCP servers of a configuration: started, kept going, their tools listed and called.

One task owns each server's connection; a server that dies is started again, later and later, and the others do not
notice. The `mcp` package is an extra, loaded when the first server starts.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolglot.agent.keeper import Keeper, Progress
from toolglot.agent.tools import Pace, ServerState, ServerTool, ToolFailedError
from toolglot.config.schema import McpServerConfig
from toolglot.errors import MissingExtraError


class Host:
    """The servers by their names. All but `call` is for the task that has it; `call` is for any."""

    def __init__(
        self,
        servers: Mapping[str, McpServerConfig],
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pace = pace or Pace()
        self._clock = clock
        self._generations = itertools.count(1)
        self._keepers = {name: self._keeper(name, config) for name, config in servers.items()}
        self._busy = asyncio.Lock()
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Begins to start all servers, and does not wait for them.

        Raises:
            MissingExtraError: there are some, and the package `mcp` is not installed.
        """
        async with self._busy:
            if self._started or self._closed:
                return
            _need_sdk(self._keepers)
            self._started = True
            for keeper in self._keepers.values():
                keeper.start()

    async def close(self) -> None:
        """Ends all servers and whatever they have started, in bounded time."""
        async with self._busy:
            self._closed = True
            await _stop(self._keepers.values())

    async def update(self, servers: Mapping[str, McpServerConfig]) -> None:
        """Takes over another configuration: servers that are the same in it are left alone.

        Raises:
            MissingExtraError: there are some, and the package `mcp` is not installed.
        """
        async with self._busy:
            if self._closed:
                return
            if self._started:
                _need_sdk(servers)
            before = self._keepers
            kept = {name: before[name] for name in servers if name in before and before[name].takes(servers[name])}
            self._keepers = {name: kept.get(name) or self._keeper(name, servers[name]) for name in servers}
            await _stop(keeper for keeper in before.values() if keeper not in kept.values())
            if self._started:
                for name, keeper in self._keepers.items():
                    if name not in kept:
                        keeper.start()

    async def ready(self, names: Iterable[str]) -> None:
        """Until each of these is ready or has failed once, and no longer than each may take to start."""
        keepers = [self._keepers[name] for name in names if name in self._keepers]
        if self._started and not self._closed:
            await asyncio.gather(*(keeper.settled() for keeper in keepers))

    def state(self, name: str) -> ServerState:
        """How the server is; one that the configuration does not have, or no more, is closed."""
        keeper = self._keepers.get(name)
        if keeper is None:
            return ServerState(name=name, state="closed", why="it is not configured any more")
        return keeper.state

    def states(self) -> list[ServerState]:
        return [keeper.state for keeper in self._keepers.values()]

    def tools(self, name: str) -> tuple[ServerTool, ...]:
        """The server's tools of this moment; none while it is not ready."""
        keeper = self._keepers.get(name)
        return keeper.tools if keeper is not None else ()

    async def call(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        on_progress: Progress | None = None,
        generation: int | None = None,
    ) -> dict[str, Any]:
        """The result of a tool as MCP's JSON has it. Cancelling this cancels the call at the server.

        With the `generation` of a `ServerTool` no other server is called that has come to have the same name.

        Raises:
            ToolFailedError: there is none: a dead server, another one, an error of the protocol, no answer in time.
        """
        keeper = self._keepers.get(server)
        if keeper is None:
            raise ToolFailedError(f"there is no MCP server {server!r}")
        if generation is not None and generation != keeper.generation:
            raise ToolFailedError(f"MCP server {server} was replaced by another one meanwhile")
        return await keeper.call(name, arguments, on_progress)

    def _keeper(self, name: str, config: McpServerConfig) -> Keeper:
        return Keeper(name, config, self.pace, self._clock, next(self._generations))


def _need_sdk(servers: Iterable[str]) -> None:
    if any(True for _ in servers) and importlib.util.find_spec("mcp") is None:
        raise MissingExtraError("an MCP server in the configuration", "mcp", "mcp")


async def _stop(keepers: Iterable[Keeper]) -> None:
    await asyncio.gather(*(keeper.stop() for keeper in keepers))
