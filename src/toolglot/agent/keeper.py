"""Keeps one MCP server going: starts it, starts it again when it dies, and knows how it is.

Nothing here needs the SDK: that is loaded when the first server starts, in a thread, because it takes a while.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolglot.agent.tools import Pace, ServerState, ServerTool, State, ToolFailedError, server_tools
from toolglot.agent.words import Tail, clean, credentials_of, secrets_of, without
from toolglot.config.schema import McpServerConfig

if TYPE_CHECKING:
    from toolglot.agent.connection import Session

Progress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Told how far a call is: done, of how much, and what it says."""

Protocol: TypeAlias = Literal["auto", "stateless", "handshake"]

_log = logging.getLogger("toolglot.agent")
_OF_THE_CONNECTION = ("command", "args", "env", "cwd", "url", "headers", "protocol")


class EndedError(Exception):
    """A connection is over, or never was one. The message tells why, in words that may have secrets in them.
    `by_itself`: the server's program was there, and ended."""

    def __init__(self, why: str, *, by_itself: bool = False) -> None:
        super().__init__(why)
        self.by_itself = by_itself


class Keeper:
    """One server. Its connection lives in one task, `call` may be called from any."""

    def __init__(
        self, name: str, config: McpServerConfig, pace: Pace, clock: Callable[[], float], generation: int = 0
    ) -> None:
        self.name = name
        self.generation = generation
        self.config = config
        self.pace = pace
        self.tail = Tail()
        self.tools: tuple[ServerTool, ...] = ()
        self._clock = clock
        self._secrets = secrets_of(config)
        self._credentials = credentials_of(config)
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._state: State = "starting"
        self._why: str | None = None
        self._protocol: str | None = None
        self._restarts = 0
        self._shy = False
        self._stopped = False
        self._named_secret = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"mcp server {self.name}")

    async def stop(self) -> None:
        """Ends the server. Takes no longer than `pace.closing` and a second."""
        self._state, self._stopped = "closed", True
        self._settled.set()
        task = self._task
        if task is None:
            return
        task.cancel()
        _, left = await asyncio.wait({task}, timeout=self.pace.closing)
        if left:
            task.cancel()  # what was waited for (an answer to the end of a session) is given up
            await asyncio.wait({task}, timeout=1)

    def takes(self, config: McpServerConfig) -> bool:
        """Takes over a configuration that the connection has nothing to do with; False for one that it has."""
        if any(getattr(self.config, field) != getattr(config, field) for field in _OF_THE_CONNECTION):
            return False
        self.config = config
        return True

    @property
    def state(self) -> ServerState:
        return ServerState(
            name=self.name,
            state=self._state,
            why=self._why,
            tools=len(self.tools),
            protocol=self._protocol,
            restarts=self._restarts,
            log=self.tail.text(self._secrets),
        )

    async def settled(self) -> None:
        """Until it is ready or has failed, and no longer than it may take to start."""
        try:
            async with asyncio.timeout(self.config.start_timeout):
                await self._settled.wait()
        except TimeoutError:
            return

    async def call(self, name: str, arguments: dict[str, Any], on_progress: Progress | None) -> dict[str, Any]:
        """Raises `ToolFailedError`."""
        if self._session is None:
            why = f": {self._why}" if self._why else ""
            raise ToolFailedError(f"MCP server {self.name} is not running ({self._state}{why})")
        return await self._session.call(name, arguments, on_progress)

    # What the connection tells.

    @property
    def protocol(self) -> Protocol:
        """Some old servers do not survive the question for the new generation: such get the old words the next time."""
        return "handshake" if self._shy and self.config.protocol == "auto" else self.config.protocol

    def listed(self, definitions: list[dict[str, Any]]) -> None:
        """Takes over a list, which is used up; without the server's credentials, which some show in their defaults.

        Raises:
            DecodeError: one of them is no tool.
        """
        shown = [self.kept_secret(tool) for tool in definitions]
        # Under another name it could not be called.
        named = [tool for tool, listed in zip(shown, definitions, strict=True) if tool["name"] == listed["name"]]
        if len(named) < len(shown) and not self._named_secret:
            self._named_secret = True
            self.warn("tools are left out whose names hold one of its credentials")
        self.tools = server_tools(self.name, named, self.generation)

    def ready(self, session: Session, protocol: str) -> None:
        self._session, self._protocol = session, protocol
        self._state, self._why = "ready", None
        self._settled.set()
        _log.info("MCP server %s: ready, %d tools, MCP %s", self.name, len(self.tools), protocol)

    def warn(self, what: str) -> None:
        _log.warning("MCP server %s: %s", self.name, self.clean(what))

    def clean(self, text: str) -> str:
        return clean(text, self._secrets)

    def kept_secret(self, told: dict[str, Any]) -> dict[str, Any]:
        """What the server tells, without the credentials that it was given: some show their whole environment."""
        return without(told, self._credentials) if self._credentials else told

    # The life of the server.

    async def _run(self) -> None:
        try:
            connection = await asyncio.to_thread(importlib.import_module, "toolglot.agent.connection")
            delay = self.pace.first
            while True:
                began = self._clock()
                why = await self._attempt(connection)
                if self._stopped:  # the SDK's scopes swallow a cancellation that comes while they are left
                    return
                delay = self.pace.first if self._clock() - began >= self.pace.steady else delay
                self._died(why, delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, self.pace.longest)
                self._restarts += 1
        except ImportError as error:
            self._why = self.clean(f"the package mcp cannot be used ({error})")
            _log.error("MCP server %s: %s", self.name, self._why)
        finally:
            self._session, self.tools, self._state = None, (), "closed"
            self._settled.set()

    async def _attempt(self, connection: ModuleType) -> str:
        """Lets the server live once, and returns what has ended it."""
        self._state, self._protocol, self.tail = "starting", None, Tail()
        try:
            await connection.live(self)
        except EndedError as error:
            # Old words are kept to if they did help, and tried if the new ones did not.
            self._shy = error.by_itself and self._shy == (self._session is not None)
            return str(error)
        except Exception as error:  # a fault of the SDK's or ours must not end this server for good
            _log.debug("MCP server %s: its connection failed", self.name, exc_info=True)
            return f"its connection failed ({type(error).__name__}: {error})"
        finally:
            was_ready = self._session is not None
            self._session, self.tools = None, ()
            if was_ready:
                self._settled.clear()
            else:
                self._settled.set()
        return "it ended"

    def _died(self, why: str, delay: float) -> None:
        self._state, self._why = "waiting", self.clean(why)
        log = self.tail.text(self._secrets)
        said = f"; the last it wrote to its standard error:\n{log}" if log else ""
        _log.warning("MCP server %s: %s; trying again in %g s%s", self.name, self._why, delay, said)
