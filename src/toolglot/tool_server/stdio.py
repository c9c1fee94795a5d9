"""The server on standard input and output: one JSON-RPC message per line. Standard output has nothing else.

The SDK's own transport reads lines of any length and skips unreadable ones, so that their sender waits forever. Here
lines are limited, and an unreadable one is answered, by its id if that can be found.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from msgspec import Struct
from pydantic import ValidationError

from toolglot.tool_server.arguments import MAX_DOCUMENT

MAX_MESSAGE = 2 * MAX_DOCUMENT + 64 * 1024
"""Maximum bytes of a message. In a document inside a string, every quote takes two characters."""

PIECE = 64 * 1024
DRAIN = 5.0
"""Seconds for the last answers after the input has ended."""
MAX_CONCURRENT = 32
"""Maximum calls that are answered concurrently; further ones are not read yet."""
HEAD = 1024
"""Bytes of a line that are searched for its id, which is usually before the parameters."""
_ID = re.compile(rb'"id"\s*:\s*(-?[0-9]{1,15}|"[^"\\]{1,200}")')

Incoming = SessionMessage | Exception


async def serve_stdio(server: Server[Any], source: int = 0, target: int = 1) -> None:
    """Serve until the input ends. The file descriptors are those of the peer's pipes."""
    with _redirect_descriptors(source, target) as (reading, writing):
        async with _streams(reading, writing) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())


@contextmanager
def _redirect_descriptors(source: int, target: int) -> Iterator[tuple[int, int]]:
    """Yield duplicates of both descriptors. Meanwhile, the originals lead to the null device and standard error, so
    that other output cannot break the protocol.
    """
    reading, writing = os.dup(source), os.dup(target)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, source)
    os.dup2(2, target)
    os.close(nowhere)
    try:
        yield reading, writing
    finally:
        # The duplicates stay open, because a thread may still wait on them and their numbers must not be reused.
        os.dup2(reading, source)
        os.dup2(writing, target)


class PendingCalls:
    """The unanswered calls, by id."""

    def __init__(self) -> None:
        self._calls: Counter[Any] = Counter()
        self._changed = anyio.Event()

    def begin(self, call: Any) -> None:
        self._calls[call] += 1

    def end(self, call: Any) -> None:
        if self._calls[call] > 1:
            self._calls[call] -= 1
        else:
            del self._calls[call]
        self._changed.set()
        self._changed = anyio.Event()

    async def fewer_than(self, count: int) -> None:
        while self._calls.total() >= count:
            await self._changed.wait()


@asynccontextmanager
async def _streams(
    reading: int, writing: int
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    came, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, goes = anyio.create_memory_object_stream[SessionMessage](0)
    pending = PendingCalls()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write, goes, writing, pending)
        tasks.start_soon(_read, reading, came, outgoing.clone(), pending)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


async def _write(messages: MemoryObjectReceiveStream[SessionMessage], target: int, pending: PendingCalls) -> None:
    async with messages:
        async for each in messages:
            message = each.message
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            with suppress(OSError):  # the client no longer listens; the end of the input ends the server
                await _in_thread(_write_all, target, line)
            if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                pending.end(message.id)


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


async def _read(
    source: int,
    messages: MemoryObjectSendStream[Incoming],
    answers: MemoryObjectSendStream[SessionMessage],
    pending: PendingCalls,
) -> None:
    lines = LineReader(source)
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with messages, answers:
            while (line := await _in_thread(lines.next)) is not None:
                message = _parse_line(line)
                if isinstance(message, SessionMessage):
                    await pending.fewer_than(MAX_CONCURRENT)
                    _note(message.message, pending)
                    await messages.send(message)
                elif message is not None:
                    pending.begin(message.id)
                    await answers.send(SessionMessage(message))
            # A client that writes its last call and closes the pipe still gets the answer, if it is ready soon.
            with anyio.move_on_after(DRAIN):
                await pending.fewer_than(1)


def _note(message: JSONRPCMessage, pending: PendingCalls) -> None:
    """Count a call that begins, or one that is canceled, which gets no answer."""
    if isinstance(message, JSONRPCRequest):
        pending.begin(message.id)
    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        taken_back = (message.params or {}).get("requestId")
        if isinstance(taken_back, (int, str)):
            pending.end(taken_back)


class InputLine(Struct, frozen=True):
    """A line without its end; `whole` is False if it is only the beginning of a line that is too long."""

    text: bytes
    whole: bool = True


class LineReader:
    """The lines of a descriptor, each up to a limit of bytes. The rest of a longer one is skipped."""

    def __init__(self, source: int, limit: int = MAX_MESSAGE) -> None:
        self._source = source
        self._limit = limit
        self._piece = b""
        self._at = 0

    def next(self) -> InputLine | None:
        """Return the next line; None at the end."""
        pieces: list[bytes] = []
        size = 0
        while self._at < len(self._piece) or self._more():
            end = self._piece.find(b"\n", self._at)
            part = self._piece[self._at : end if end >= 0 else None]
            self._at = end + 1 if end >= 0 else len(self._piece)
            size += len(part)
            if size <= self._limit:
                pieces.append(part)
            else:
                pieces = [(pieces or [part])[0][:HEAD]]
            if end >= 0:
                return InputLine(b"".join(pieces), size <= self._limit)
        return InputLine(b"".join(pieces), size <= self._limit) if size else None

    def _more(self) -> bool:
        try:
            self._piece = os.read(self._source, PIECE)
        except OSError:
            self._piece = b""
        self._at = 0
        return bool(self._piece)


def _parse_line(line: InputLine) -> SessionMessage | JSONRPCError | None:
    """Parse the message in a line, or return the error answer for an invalid one; None for an empty line."""
    if not line.whole:
        return _refusal(line.text, INVALID_REQUEST, f"the message has more than {MAX_MESSAGE} bytes, the limit")
    if not line.text.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line.text, by_name=False))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        broken = first["type"] == "json_invalid"
        what = first["msg"] if broken else "this is not a JSON-RPC 2.0 message"
        return _refusal(line.text, PARSE_ERROR if broken else INVALID_REQUEST, what)


def _refusal(line: bytes, code: int, message: str) -> JSONRPCError:
    head = line[:HEAD].partition(b'"params"')[0]
    found = _ID.search(head)
    told = None if found is None else found[1].decode(errors="replace")
    request = told if told is None else told[1:-1] if told.startswith('"') else int(told)
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of blocking work, in a thread that does not delay the end of the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: OSError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            result, failed = work(*arguments), None
        except OSError as error:
            result, failed = None, error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, daemon=True, name="toolglot-stdio").start()
    return await done
