"""`toolglot mcp` in a process of its own, and those who talk to it: the official client, and whoever writes lines."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.waiting import FAILSAFE

GENERATIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""Both generations of the protocol: the client's mode, and the version that is agreed on."""

COMMAND = (sys.executable, "-m", "toolglot", "mcp")


def surroundings(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process that knows nothing of this machine."""
    return {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath), **more}


def text_of(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


def talk(client: Client, conversation: Callable[[Client], Awaitable[None]]) -> None:
    """Open the connection, have the conversation, and close it; all of that within a time."""

    async def held() -> None:
        async with asyncio.timeout(FAILSAFE), client:
            await conversation(client)

    asyncio.run(held())


def over_stdio(folder: Path, *arguments: str, mode: str = "auto") -> Client:
    """The official client with a server of its own."""
    command, *rest = COMMAND
    parameters = StdioServerParameters(
        command=command, args=[*rest, *arguments], env=surroundings(folder), cwd=str(folder)
    )
    return Client(parameters, mode=mode, read_timeout_seconds=FAILSAFE)


class Lines:
    """Somebody who writes lines to a server and reads the answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def write(self, data: bytes | dict[str, Any]) -> None:
        assert self._process.stdin is not None
        line = data if isinstance(data, bytes) else json.dumps(data).encode()
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def read(self) -> Any:
        """The next message, which must be JSON: nothing else stands on standard output."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, data: bytes | dict[str, Any]) -> Any:
        self.write(data)
        return self.read()

    def finish(self) -> tuple[int, str, bytes]:
        """Close the input: the exit status, and what is left of standard output and on standard error."""
        rest, errors = self._process.communicate(timeout=FAILSAFE)
        return self._process.returncode, errors.decode(), rest


@contextmanager
def lines(folder: Path, *arguments: str) -> Iterator[Lines]:
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=surroundings(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield Lines(process)
        finally:
            process.kill()


@contextmanager
def over_http(folder: Path, *arguments: str, listen: str = "127.0.0.1:0", **environment: str) -> Iterator[str]:
    """A server over HTTP, from when it is ready; its URL."""
    address = folder / "address"
    os.mkfifo(address)
    command: Sequence[str] = [*COMMAND, "--http", listen, "--address-file", str(address), *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=surroundings(folder, **environment), stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield address.read_text()  # it is written once the server is ready
        finally:
            process.terminate()
