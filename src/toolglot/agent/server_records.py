"""Records about MCP servers and their tools, and the host's timings."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from toolglot.errors import ToolglotError
from toolglot.ir import Tool
from toolglot.tools import mcp


class ToolFailedError(ToolglotError):
    """A call has no result: its server is dead, timed out, or answered with an error. The message is fit for a model:
    printable, short, and without secrets of the server's configuration."""


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool of one server. `destructive` is meaningful for tools that are not read-only."""

    server: str
    """The server's name in the configuration."""
    name: str
    """The tool's own name."""
    tool: Tool
    """The tool as `tools.mcp` decodes it: annotations, output schema and similar members are in `native["mcp"]`."""
    read_only: bool = False
    destructive: bool = True
    generation: int = 0
    """Identifies the server among those that have had this name, because a new configuration may define another one."""


ServerStatus = Literal["starting", "ready", "waiting", "closed"]


class ServerState(Struct, frozen=True, kw_only=True):
    """State of a server. `why` is the reason for its last end, `log` is the end of its standard error. Both are
    printable and contain no secrets.
    """

    name: str
    state: ServerStatus
    why: str | None = None
    tools: int = 0
    protocol: str | None = None
    restarts: int = 0
    log: str = ""


class HostTimings(Struct, frozen=True, kw_only=True):
    """The host's delays and timeouts, in seconds."""

    first: float = 0.5
    """Delay before a dead server is restarted; doubled each time it dies, up to `longest`."""
    longest: float = 30.0
    steady: float = 60.0
    """A server that has run this long starts with `first` again."""
    grace: float = 2.0
    """Time for a server to exit by itself after its input was closed, and again after SIGTERM."""
    settle: float = 0.2
    """Time to collect list changes before the list is read again."""
    relisten: float = 5.0
    """Delay before listening again to a server whose stream of changes has ended."""
    relist: float = 300.0
    """Polling interval for a server that does not report tool changes, although its protocol version could."""
    closing: float = 8.0
    """Time limit for closing; the rest is abandoned."""
    progress: float = 0.2
    """Minimum interval between two forwarded progress reports of a call."""


def server_tools(server: str, listed: list[dict[str, Any]], generation: int = 0) -> tuple[ServerTool, ...]:
    """Convert a list of tools, which is consumed. If a name is repeated, the first one counts.

    Raises:
        DecodeError: one of them is not a tool.
    """
    found: dict[str, ServerTool] = {}
    for tool in mcp.read_tools(listed):
        known = ServerTool(
            server=server,
            name=tool.name,
            tool=tool,
            read_only=mcp.is_read_only(tool),
            destructive=mcp.is_destructive(tool),
            generation=generation,
        )
        found.setdefault(tool.name, known)
    return tuple(found.values())
