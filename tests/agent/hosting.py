"""Hosts for tests: real servers, short times, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uvloop

from tests.waiting import FAILSAFE
from toolglot.agent.host import McpHost
from toolglot.agent.server_records import HostTimings
from toolglot.config.schema import McpServerConfig

T = TypeVar("T")

SERVERS = Path(__file__).parent / "mcp_servers"
SECRET = "hush-4711-hush"
QUICK = HostTimings(first=0.01, longest=0.04, grace=0.2, settle=0.01)
PATIENT = HostTimings(first=60.0, grace=0.2, settle=0.01)
"""A server that has died stays dead for the time of the test."""


def wayward(*behaviours: str, **settings: Any) -> McpServerConfig:
    """The misbehaving server, with the time limits of a test."""
    script = str(SERVERS / "wayward.py")
    settings = {"timeout": 20.0, "env": {"SECRET": SECRET}, **settings}
    return McpServerConfig(command=sys.executable, args=("-S", "-E", script, *behaviours), **settings)


def everyday(**settings: Any) -> McpServerConfig:
    """The well-behaved server, of the official SDK."""
    return McpServerConfig(command=sys.executable, args=(str(SERVERS / "everyday.py"),), **settings)


@contextmanager
def everyday_over_http() -> Iterator[str]:
    """The address of the well-behaved server in a separate process. The socket listens before the process has started:
    clients wait for it, and nobody else can take the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        number = listening.fileno()
        command = [sys.executable, str(SERVERS / "everyday.py"), "--socket", str(number)]
        process = subprocess.Popen(command, pass_fds=[number])
    try:
        yield address
    finally:
        process.kill()
        process.wait()


def run(test: Coroutine[Any, Any, T], loop: str = "asyncio") -> T:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(test)


@asynccontextmanager
async def hosting(pace: HostTimings = QUICK, **servers: McpServerConfig) -> AsyncIterator[McpHost]:
    """A host whose servers are ready or have failed."""
    host = McpHost(servers, pace=pace)
    await host.start()
    try:
        await host.ready(servers)
        yield host
    finally:
        await host.close()


async def until(condition: Callable[[], bool]) -> None:
    """Until this holds; there are things that tell nobody when they happen."""
    async with asyncio.timeout(FAILSAFE):
        while not condition():
            await asyncio.sleep(0.005)


def lives(pid: int) -> bool:
    """Does this process run? One that has ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children() -> set[int]:
    """The processes that this one has started and not yet reaped."""
    found = set[int]()
    for thread in os.listdir(f"/proc/{os.getpid()}/task"):
        with suppress(OSError):  # the thread may have ended meanwhile
            found.update(map(int, Path(f"/proc/{os.getpid()}/task/{thread}/children").read_text().split()))
    return found


def text_of(result: dict[str, Any]) -> str:
    """The text of a tool's result."""
    return "".join(block["text"] for block in result["content"])


def with_(config: McpServerConfig, **settings: Any) -> McpServerConfig:
    return msgspec.structs.replace(config, **settings)
