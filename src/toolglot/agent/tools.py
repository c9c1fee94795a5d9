"""What the host tells of MCP servers and their tools, and how long it waits for what."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from toolglot.errors import ToolglotError
from toolglot.ir import Tool
from toolglot.tools import mcp


class ToolFailedError(ToolglotError):
    """A call has no result: its server is dead, did not answer in time, or answered with an error. The message is fit
    for a model to read: printable, short, and without the secrets of the server's configuration."""


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool of one server. `destructive` is meant for tools that do not only read."""

    server: str
    """The server's name in the configuration."""
    name: str
    """The tool's own name."""
    tool: Tool
    """As `tools.mcp` reads it: annotations, output schema and the like are in `native["mcp"]`."""
    read_only: bool = False
    destructive: bool = True
    generation: int = 0
    """Which of the servers that have had this name it belongs to: a new configuration may bring another one."""


State = Literal["starting", "ready", "waiting", "closed"]


class ServerState(Struct, frozen=True, kw_only=True):
    """How a server is. `why` tells what ended it the last time, `log` is the end of what it wrote to its standard
    error; both are printable and have no secrets in them."""

    name: str
    state: State
    why: str | None = None
    tools: int = 0
    protocol: str | None = None
    restarts: int = 0
    log: str = ""


class Pace(Struct, frozen=True, kw_only=True):
    """How long the host waits for what, in seconds."""

    first: float = 0.5
    """Before a dead server is started again; doubled each time it dies, up to `longest`."""
    longest: float = 30.0
    steady: float = 60.0
    """A server that has lived this long begins with `first` again."""
    grace: float = 2.0
    """What a server is given to end by itself after its input was closed, and again after SIGTERM."""
    settle: float = 0.2
    """How long changes of the list are gathered before it is read again."""
    relisten: float = 5.0
    """Before a server whose stream of changes has ended is listened to again."""
    relist: float = 300.0
    """How often a server is asked that tells nobody when its tools change, although its generation could."""
    closing: float = 8.0
    """When what still is not closed is left to itself."""
    progress: float = 0.2
    """Between two things that a call says of its progress and that are passed on."""


def server_tools(server: str, listed: list[dict[str, Any]], generation: int = 0) -> tuple[ServerTool, ...]:
    """The tools of a list, which is used up. Where a name comes twice, the first one counts.

    Raises:
        DecodeError: one of them is no tool.
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
