"""A connection to Redis or Valkey: commands in order, replies as they come. Only what the shared counters need.

Commands are pipelined on one connection, so that a settlement is there before the next reservation of this process. A
reply that takes too long ends the connection: a late one can never be taken for the reply of another command.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast
from urllib.parse import unquote, urlsplit

from toolglot.errors import ToolglotError

Reply: TypeAlias = "bytes | int | RedisError | list[Reply] | None"
Argument: TypeAlias = str | int | bytes

DEFAULT_PORT = 6379
MOST_BYTES = 1024 * 1024
"""Size of a reply. The counters' are far smaller."""


class RedisError(ToolglotError):
    """Redis refuses a command, or does not answer. `code` is the first word of its error."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


def encode_command(arguments: Sequence[Argument]) -> bytes:
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class IncompleteError(Exception):
    """The rest of a reply has not arrived yet."""


def parse_reply(data: bytes, start: int = 0) -> tuple[Reply, int]:
    """Parse one reply. Returns it and the position after it."""
    end = data.find(b"\r\n", start)
    if end < 0:
        raise IncompleteError
    kind, rest, after = data[start : start + 1], data[start + 1 : end], end + 2
    if kind == b"+":
        return rest, after
    if kind == b"-":
        return RedisError(rest.decode("utf-8", "replace")), after
    if kind == b":":
        return int(rest), after
    if kind == b"$":
        size = int(rest)
        if size < 0:
            return None, after
        if len(data) < after + size + 2:
            raise IncompleteError
        return data[after : after + size], after + size + 2
    if kind == b"*":
        items: list[Reply] = []
        for _ in range(int(rest)):
            item, after = parse_reply(data, after)
            items.append(item)
        return items, after
    raise ValueError("not a reply of Redis")


class RedisConnection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self.when_lost: Callable[[], object] = int
        """Called when the other side closes the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        position = 0
        try:
            while position < len(self._buffer):
                reply, position = parse_reply(self._buffer, position)
                future = self._waiting.popleft()
                if not future.done():  # its caller has left
                    future.set_result(reply)
        except IncompleteError:
            if len(self._buffer) > MOST_BYTES:
                self.abort()
        except (ValueError, IndexError):
            self.abort()
        self._buffer = self._buffer[position:]

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._transport = None
            self._fail_waiting()
            self.when_lost()

    def _fail_waiting(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(RedisError("the connection was closed"))
                future.exception()  # retrieved, even if no task waits for it
        self._waiting.clear()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, *arguments: Argument) -> asyncio.Future[Reply]:
        """Send a command. The future has its reply, which may be a `RedisError`."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if self._transport is None:
            future.set_exception(RedisError("the connection was closed"))
            future.exception()
            return future
        self._waiting.append(future)
        self._transport.write(encode_command(arguments))
        return future

    async def call(self, timeout: float, *arguments: Argument) -> Reply:
        """Send a command and return its reply. Raises `RedisError`; a connection that is too slow is closed."""
        future = self.send(*arguments)
        await asyncio.wait((future,), timeout=timeout)
        if not future.done():
            self.abort()
            raise RedisError("it does not answer")
        reply = future.result()
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
            self._fail_waiting()


async def connect(url: str, timeout: float) -> RedisConnection:
    """Connect and log in. Raises `RedisError`."""
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context() if address.scheme == "rediss" else None
    try:
        async with asyncio.timeout(timeout):
            if address.scheme == "unix":
                _, connection = await loop.create_unix_connection(RedisConnection, unquote(address.path))
            else:
                host, port = address.hostname or "127.0.0.1", address.port or DEFAULT_PORT
                _, connection = await loop.create_connection(RedisConnection, host, port, ssl=context)
    except TimeoutError:
        raise RedisError("it does not answer") from None
    except OSError as error:
        raise RedisError(f"it cannot be reached ({error.strerror or type(error).__name__})") from None
    try:
        if address.password:
            user = (unquote(address.username),) if address.username else ()
            await connection.call(timeout, "AUTH", *user, unquote(address.password))
        if address.scheme != "unix" and (database := address.path.strip("/")):
            await connection.call(timeout, "SELECT", database)
    except RedisError:
        connection.abort()
        raise
    return connection
