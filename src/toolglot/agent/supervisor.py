"""Supervises one MCP server: starts it, restarts it when it dies, and tracks its state.

This module does not need the SDK, which is slow to load and is loaded in a thread when the first server starts.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolglot.agent.safe_text import ErrorTail, config_credentials, config_secrets, remove_credentials, safe_line
from toolglot.agent.server_records import (
    HostTimings,
    ServerState,
    ServerStatus,
    ServerTool,
    ToolFailedError,
    server_tools,
)
from toolglot.config.schema import McpServerConfig

if TYPE_CHECKING:
    from toolglot.agent.connection import McpSession

ProgressCallback: TypeAlias = Callable[[float, float | None, str | None], None]
"""Called with a call's progress: done, total, message."""

ProtocolChoice: TypeAlias = Literal["auto", "stateless", "handshake"]

_log = logging.getLogger("toolglot.agent")
_CONNECTION_FIELDS = ("command", "args", "env", "cwd", "url", "headers", "protocol")


class EndedError(Exception):
    """A connection ended or could not be made. The message gives the reason and may contain secrets. `by_itself`: the
    server's program was running, and exited.
    """

    def __init__(self, why: str, *, by_itself: bool = False) -> None:
        super().__init__(why)
        self.by_itself = by_itself


class ServerSupervisor:
    """Supervisor of one server. The connection lives in one task; any task may use `call`."""

    def __init__(
        self, name: str, config: McpServerConfig, pace: HostTimings, clock: Callable[[], float], generation: int = 0
    ) -> None:
        self.name = name
        self.generation = generation
        self.config = config
        self.pace = pace
        self.tail = ErrorTail()
        self.tools: tuple[ServerTool, ...] = ()
        self._clock = clock
        self._secrets = config_secrets(config)
        self._credentials = config_credentials(config)
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._session: McpSession | None = None
        self._state: ServerStatus = "starting"
        self._why: str | None = None
        self._protocol: str | None = None
        self._restarts = 0
        self._shy = False
        self._stopped = False
        self._named_secret = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"mcp server {self.name}")

    async def stop(self) -> None:
        """Stop the server. Takes no longer than `pace.closing` and a second."""
        self._state, self._stopped = "closed", True
        self._settled.set()
        task = self._task
        if task is None:
            return
        task.cancel()
        _, left = await asyncio.wait({task}, timeout=self.pace.closing)
        if left:
            task.cancel()  # gives up what was waited for (an answer to the end of a session)
            await asyncio.wait({task}, timeout=1)

    def apply_config(self, config: McpServerConfig) -> bool:
        """Apply a configuration that does not affect the connection; False if it does."""
        if any(getattr(self.config, field) != getattr(config, field) for field in _CONNECTION_FIELDS):
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

    async def wait_settled(self) -> None:
        """Wait until the server is ready or has failed, up to its start timeout. A server that has died is waited for
        only if its restart comes soon."""
        try:
            async with asyncio.timeout(self.config.start_timeout):
                await self._settled.wait()
        except TimeoutError:
            return

    async def call(self, name: str, arguments: dict[str, Any], on_progress: ProgressCallback | None) -> dict[str, Any]:
        """Raises `ToolFailedError`."""
        if self._session is None:
            why = f": {self._why}" if self._why else ""
            raise ToolFailedError(f"MCP server {self.name} is not running ({self._state}{why})")
        return await self._session.call(name, arguments, on_progress)

    # Called by the connection.

    @property
    def protocol(self) -> ProtocolChoice:
        """The protocol for the next start. Some old servers crash on the new protocol, and get the old one the next
        time.
        """
        return "handshake" if self._shy and self.config.protocol == "auto" else self.config.protocol

    def set_tools(self, definitions: list[dict[str, Any]]) -> None:
        """Set the list of tools, which is consumed, without the server's credentials, which some servers show in their
        defaults.

        Raises:
            DecodeError: one of them is not a tool.
        """
        shown = [self.redact(tool) for tool in definitions]
        # A tool cannot be called under another name.
        named = [tool for tool, listed in zip(shown, definitions, strict=True) if tool["name"] == listed["name"]]
        if len(named) < len(shown) and not self._named_secret:
            self._named_secret = True
            self.warn("tools whose names contain one of its credentials are left out")
        self.tools = server_tools(self.name, named, self.generation)

    def ready(self, session: McpSession, protocol: str) -> None:
        self._session, self._protocol = session, protocol
        self._state, self._why = "ready", None
        self._settled.set()
        _log.info("MCP server %s: ready, %d tools, MCP %s", self.name, len(self.tools), protocol)

    def warn(self, what: str) -> None:
        _log.warning("MCP server %s: %s", self.name, self.clean(what))

    def clean(self, text: str) -> str:
        return safe_line(text, self._secrets)

    def redact(self, told: dict[str, Any]) -> dict[str, Any]:
        """Remove the credentials that a server was given from its output: some servers print their whole
        environment."""
        return remove_credentials(told, self._credentials) if self._credentials else told

    # The server's life cycle.

    async def _run(self) -> None:
        try:
            connection = await asyncio.to_thread(importlib.import_module, "toolglot.agent.connection")
            delay = self.pace.first
            while True:
                began = self._clock()
                why = await self._attempt(connection)
                if self._stopped:  # the SDK's scopes swallow a cancellation that arrives while they are being left
                    return
                delay = self.pace.first if self._clock() - began >= self.pace.steady else delay
                self._on_death(why, delay)
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
        """Run the server once, and return why it ended."""
        self._state, self._protocol, self.tail = "starting", None, ErrorTail()
        try:
            await connection.run_session(self)
        except EndedError as error:
            # The old protocol is kept if it worked, and tried if the new one failed.
            self._shy = error.by_itself and self._shy == (self._session is not None)
            return str(error)
        except Exception as error:  # an error of the SDK or ours must not end this server for good
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

    def _on_death(self, why: str, delay: float) -> None:
        self._state, self._why = "waiting", self.clean(why)
        if delay > self.pace.first:  # it dies again and again: requests do not wait for it
            self._settled.set()
        log = self.tail.text(self._secrets)
        said = f"; last output on its standard error:\n{log}" if log else ""
        _log.warning("MCP server %s: %s; trying again in %g s%s", self.name, self._why, delay, said)
