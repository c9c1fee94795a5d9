"""MCP over a program's standard input and output: a line is a message.

The SDK's own transport gathers a line without end and lets the program write to our standard error. Here a line is
bounded, and so is what is kept of the errors; a program that goes beyond that is ended.
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

from toolglot.agent.process import Process, spawn
from toolglot.agent.sift import Incoming, Throttle
from toolglot.agent.words import Tail
from toolglot.config.schema import McpServerConfig
from toolglot.errors import DecodeError
from toolglot.wire import json

LINE_LIMIT = 16 * 1024 * 1024
_CHUNK = 65_536
_ENDING = 0.5
_EDGE = 200
# The members of the message itself stand at its edges; further inside, an `id` may be anybody's.
_NUMBER_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')
_NUMBER_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_log = logging.getLogger("toolglot.agent")

ToSession: TypeAlias = MemoryObjectSendStream[Incoming]
FromSession: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


class Stdio:
    """The connection to one program. `why` tells what has ended it, `ended` whether it did that by itself."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        tail: Tail,
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
        self._lines = Lines(line_limit)
        self._shown = shown
        self._faulty = False
        self._warned = False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """The program's messages and where ours go; the program ends with the block.

        Raises:
            OSError: it cannot be started.
        """
        with anyio.CancelScope(shield=True):  # a process that nobody knows of could not be ended
            process = await spawn(self._config, self._tail)
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

    async def _read(self, process: Process, to_session: ToSession) -> None:
        throttle = Throttle()
        with to_session:
            try:
                while data := await process.output.read(_CHUNK):
                    for line in self._lines.feed(data):
                        message = self._message(line)
                        if message is None:
                            await throttle.take()
                        else:
                            await to_session.send(message)
            except LineTooLongError as error:
                self._faulty, self.why = True, str(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is gone
            else:
                await process.exit(_ENDING)
                self.ended, self.why = True, self.why or process.ending

    def _message(self, line: bytes) -> SessionMessage | None:
        """The message of a line; None for one that has none."""
        if (message := _read_message(line)) is not None:
            return message
        if (number := _answered(line)) is not None:
            error = ErrorData(code=PARSE_ERROR, message="the answer is not JSON-RPC")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))
        if line.strip() and not self._warned:
            self._warned = True
            text = self._shown(line[:200].decode("utf-8", "replace"))
            _log.warning("MCP server %s writes lines that are not MCP to its output, as %s", self._name, text)
        return None

    async def _write(self, process: Process, from_session: FromSession, to_session: ToSession) -> None:
        with from_session:
            try:
                async for message in from_session:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.write(text.encode("utf-8", "surrogatepass") + b"\n")
            except OSError:
                # The session must learn that nothing will be answered any more.
                self.why = self.why or "it closed its input"
                to_session.close()


def _read_message(line: bytes) -> SessionMessage | None:
    for text in (line, line.decode("utf-8", "replace")):  # some programs write what their terminal would show
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValidationError:
            if line.isascii() or not line.lstrip().startswith(b"{"):
                return None
    return None


def _answered(line: bytes) -> int | None:
    """The number of our request that this line answers in a way that is none: members of the wrong kind, or something
    that cannot be read in the middle of it."""
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
    """A line is longer than a message may be."""


class Lines:
    """Bytes in, whole lines out. Each byte is looked at once, however long the line."""

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
