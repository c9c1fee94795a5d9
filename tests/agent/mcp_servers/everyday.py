"""A server as people write them, with the official SDK: on its pipes, or over HTTP with `--socket N`, a file descriptor
that listens."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("everyday", log_level="ERROR")


class Sum(BaseModel):
    total: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True, title="Adds"))
def add(a: int, b: Annotated[int, Field(description="the second number")] = 1) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
def echo(text: str) -> str:
    """Says the same."""
    return text


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("it did not work")


@server.tool()
def picture() -> Image:
    """Shows a picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
def whoami() -> dict[str, str | int]:
    """Tells its process and its environment."""
    return {**os.environ, "pid": os.getpid()}


@server.tool()
async def slow(seconds: float, mark: str, context: Context) -> str:
    """Takes its time, and leaves a mark when it was cancelled."""
    try:
        await context.report_progress(1, 2, "half")
        await anyio.sleep(seconds)
    except asyncio.CancelledError:
        Path(mark).write_text("cancelled")
        raise
    return "done"


@server.tool()
async def grow(name: str, context: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: "new", name=name, description="It was not there before.")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def ask(context: Context) -> str:
    """Asks the person something."""
    answer = await context.elicit("What is your name?", Sum)
    return str(answer)


if __name__ == "__main__":
    if "--socket" in sys.argv:
        listening = socket.socket(fileno=int(sys.argv[sys.argv.index("--socket") + 1]))
        uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([listening])
    else:
        server.run("stdio")
