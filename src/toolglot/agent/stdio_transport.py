"""MCP over a program's standard input and output: each line is a message.

The SDK's own transport buffers lines of any length and lets the program write to our standard error. Here lines are
limited, and so is the error output that is kept; a program that exceeds the limits is stopped.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from toolglot.agent.process import ServerProcess, spawn_server
from toolglot.agent.safe_text import ErrorTail
from toolglot.agent.throttle import Incoming, RateLimiter
from toolglot.config.schema import McpServerConfig
from toolglot.errors import DecodeError
from toolglot.wire import json

LINE_LIMIT = 16 * 1024 * 1024
_CHUNK = 65_536
_ENDING = 0.5
_EDGE = 200
# The members of the message itself are at its edges; further inside, an `id` may belong to anything.
_NUMBER_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')
_NUMBER_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_log = logging.getLogger("toolglot.agent")

ToSession: TypeAlias = MemoryObjectSendStream[Incoming]
FromSession: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


class StdioServerTransport:
    """The connection to one program. `why` is the reason for its end, `ended` says whether the program exited by
    itself.
    """

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        tail: ErrorTail,
        *,
        grace: float = 2.0,
        line_limit: int = LINE_LIMIT,
        shown: Callable[[str], str] = ascii,
    ) -> None:
        self.why: str | None = None
        self.ended = False
        self._name = name
        self._config = config
        self._tail = tail
        self._grace = grace
        self._lines = BoundedLines(line_limit)
        self._shown = shown
        self._faulty = False
        self._warned = False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Yield the streams of messages from and to the program. The program ends with the block.

        Raises:
            OSError: it cannot be started.
        """
        with anyio.CancelScope(shield=True):  # otherwise a process that nothing refers to could not be stopped
            process = await spawn_server(self._config, self._tail)
        to_session, from_server = anyio.create_memory_object_stream[Incoming](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(self._read, process, to_session)
                pumps.start_soon(self._write, process, from_session, to_session)
                try:
                    yield from_server, to_server
                finally:
                    pumps.cancel_scope.cancel()
        finally:
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()
            with anyio.CancelScope(shield=True):
                await process.stop(self._grace, faulty=self._faulty)

    async def _read(self, process: ServerProcess, to_session: ToSession) -> None:
        throttle = RateLimiter()
        with to_session:
            try:
                while data := await process.output.read(_CHUNK):
                    for line in self._lines.feed(data):
                        message = self._parse_line(line)
                        if message is None:
                            await throttle.take()
                        else:
                            await to_session.send(message)
            except LineTooLongError as error:
                self._faulty, self.why = True, str(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is gone
            else:
                await process.wait_exit(_ENDING)
                self.ended, self.why = True, self.why or process.exit_text

    def _parse_line(self, line: bytes) -> SessionMessage | None:
        """Parse the message of a line; None if it has none."""
        if (message := _read_message(line)) is not None:
            return message
        if (number := _answered_request(line)) is not None:
            error = ErrorData(code=PARSE_ERROR, message="the answer is not JSON-RPC")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))
        if line.strip() and not self._warned:
            self._warned = True
            text = self._shown(line[:200].decode("utf-8", "replace"))
            _log.warning("MCP server %s writes lines that are not MCP to its output, as %s", self._name, text)
        return None

    async def _write(self, process: ServerProcess, from_session: FromSession, to_session: ToSession) -> None:
        with from_session:
            try:
                async for message in from_session:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.write(text.encode("utf-8", "surrogatepass") + b"\n")
            except OSError:
                # Notify the session that no more answers will arrive.
                self.why = self.why or "it closed its input"
                to_session.close()


def _read_message(line: bytes) -> SessionMessage | None:
    for text in (line, line.decode("utf-8", "replace")):  # some programs write in their terminal's encoding
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValidationError:
            if line.isascii() or not line.lstrip().startswith(b"{"):
                return None
    return None


def _answered_request(line: bytes) -> int | None:
    """Return the id of our request that this line answers invalidly: members of the wrong type, or unreadable text in
    the middle."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        value = json.decode_frame(line)
    except DecodeError:
        found = _NUMBER_FIRST.match(line[:_EDGE]) or _NUMBER_LAST.search(line[-_EDGE:])
        return int(found[1]) if found else None
    number = value.get("id") if isinstance(value, dict) and "method" not in value else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


class LineTooLongError(Exception):
    """A line exceeds the size limit of a message."""


class BoundedLines:
    """Splits bytes into complete lines. Each byte is scanned once, regardless of the line's length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Raises `LineTooLongError`."""
        *ended, rest = data.split(b"\n")
        lines = []
        for part in ended:
            self._add(part)
            lines.append(b"".join(self._begun))
            self._begun, self._length = [], 0
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._limit:
            raise LineTooLongError(f"it wrote a line of more than {self._limit:,} bytes")
        if part:
            self._begun.append(part)
