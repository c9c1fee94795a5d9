"""A server that does what it is told and nothing else: the upstream of the tests in which something goes wrong.

A script is a list of steps, and every connection plays the next script (the last one again, when there are no more)::

    stalled = Gate()
    script = [expect(), send(head(200, {"content-type": "text/event-stream"})), send(b"data: {}\\n\\n"), pause(stalled)]
    async with BadServer(script) as server:  # in the test's own loop
        ...
    with BadServer([expect(), reply({"ok": True})]) as server:  # in a thread with a loop of its own
        ...

`server.url` is its address and `server.requests` is what it was sent. A connection is closed when its script is over.
What goes wrong in a script itself (a request that does not come whole, say) is raised where the server is left.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from msgspec import json

from tests.needs import need
from tests.waiting import FAILSAFE


class Gate:
    """Something that happens once, told across threads: a step waits for it, or opens it for the test to see."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        with self._lock:
            self._opened.set()
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self, timeout: float | None = FAILSAFE) -> None:
        event = asyncio.Event()
        with self._lock:
            if self._opened.is_set():
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        async with asyncio.timeout(timeout):
            await event.wait()

    def wait_blocking(self) -> None:
        """For tests that have no event loop."""
        if not self._opened.wait(FAILSAFE):
            raise TimeoutError("the gate was not opened")


class Received(NamedTuple):
    """A request as it came. Names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    head: bytes

    def json(self) -> Any:
        return json.decode(self.body)


class Peer(NamedTuple):
    """One connection, for steps to work on."""

    server: BadServer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Gone(Exception):  # noqa: N818 - nothing is wrong
    """The peer closed the connection instead of asking."""


Step: TypeAlias = Callable[[Peer], Awaitable[None]]
Script: TypeAlias = Sequence[Step]


# Steps


def expect(body: bool = True, seen: Gate | None = None) -> Step:
    """Read one request (without `body`: its head alone) and put it with `server.requests`."""

    async def step(peer: Peer) -> None:
        peer.server.requests.append(await _read_request(peer.reader, body))
        if seen is not None:
            seen.open()

    return step


def send(*pieces: bytes) -> Step:
    """Write these bytes, each piece on its own."""

    async def step(peer: Peer) -> None:
        for piece in pieces:
            peer.writer.write(piece)
            await peer.writer.drain()

    return step


def send_each(data: bytes, size: int = 1) -> Step:
    """Write the bytes in pieces of this size, with a turn of the loop after each."""
    return send(*(data[start : start + size] for start in range(0, len(data), size)))


def send_for_ever(piece: bytes, count: list[int] | None = None) -> Step:
    """Write the same piece until the peer goes; the bytes written are counted in `count[0]`."""

    async def step(peer: Peer) -> None:
        while True:
            peer.writer.write(piece)
            await peer.writer.drain()
            if count is not None:
                count[0] += len(piece)
            await asyncio.sleep(0)

    return step


def drip(*pieces: bytes, times: int | None = None, interval: float = 0.02) -> Step:
    """Write the pieces one after the other, as chunks, slowly: for ever or so many times."""

    async def step(peer: Peer) -> None:
        for _ in range(times) if times is not None else count():
            for piece in pieces:
                peer.writer.write(chunk(piece))
                await peer.writer.drain()
                await asyncio.sleep(interval)  # this is what a slow peer does, and nobody waits for it

    return step


def pause(gate: Gate) -> Step:
    """Wait until the test opens the gate."""

    async def step(peer: Peer) -> None:
        await gate.wait()

    return step


def tell(gate: Gate) -> Step:
    """Open the gate: the script has come this far."""

    async def step(peer: Peer) -> None:
        gate.open()

    return step


def never() -> Step:
    """Hold the connection and say nothing, until the server is left."""

    async def step(peer: Peer) -> None:
        await asyncio.Event().wait()

    return step


def gone(gate: Gate) -> Step:
    """Wait until the peer has closed the connection, well or badly, and open the gate."""

    async def step(peer: Peer) -> None:
        try:
            while await peer.reader.read(65536):
                pass
        except ConnectionError:
            pass
        gate.open()

    return step


def reset() -> Step:
    """Break the connection off with a TCP reset."""

    async def step(peer: Peer) -> None:
        connection = peer.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.writer.transport.abort()

    return step


def close() -> Step:
    """Close the connection, whatever was promised."""

    async def step(peer: Peer) -> None:
        peer.writer.close()

    return step


def reply(
    body: Any = b"", status: int = 200, headers: Mapping[str, str] | None = None, keep_alive: bool = False
) -> Step:
    """A whole and correct reply; anything but bytes is written as JSON."""
    data = body if isinstance(body, bytes) else json.encode(body)
    fields = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    return send(head(status, fields if keep_alive else {**fields, "connection": "close"}) + data)


def stream(*events: bytes | str, headers: Mapping[str, str] | None = None, complete: bool = True) -> Step:
    """A reply of server-sent events, each in a chunk of its own; not `complete`: without the chunk that ends it."""
    fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close"}
    pieces = [chunk(event.encode() if isinstance(event, str) else event) for event in events]
    return send(head(200, {**fields, **(headers or {})}), *pieces, *([LAST_CHUNK] if complete else []))


# Bytes


LAST_CHUNK = b"0\r\n\r\n"


def head(status: int = 200, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> bytes:
    fields = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """The data as a chunk of `transfer-encoding: chunked`."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _read_request(reader: asyncio.StreamReader, with_body: bool) -> Received:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        raise Gone from None
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = b""
    if with_body and "chunked" in headers.get("transfer-encoding", ""):
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    elif with_body:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body, raw)


# The server


class BadServer:
    """Plays scripts on a port of the loopback interface, in the running loop (`async with`) or in a thread (`with`)."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self.port = 0
        self._scripts = scripts
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[Exception] = []
        self._server: asyncio.Server | None = None
        self._thread: threading.Thread | None = None
        self._leave = Gate()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> BadServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failures and error is None:
            raise ExceptionGroup("the script did not go through", self._failures)

    def __enter__(self) -> BadServer:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        if not ready.wait(FAILSAFE):
            raise TimeoutError("the server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._leave.open()
        self._thread.join(FAILSAFE)
        if self._failures and error is None:
            raise ExceptionGroup("the script did not go through", self._failures)

    async def _serve(self, ready: threading.Event) -> None:
        async with self:
            ready.set()
            await self._leave.wait(timeout=None)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        try:
            for step in script:
                await step(Peer(self, reader, writer))
        except (ConnectionError, Gone):
            pass  # what that means is for the test to say
        except asyncio.CancelledError:
            writer.transport.abort()  # the server is left; a callback of the loop must not end as cancelled
        except Exception as error:  # a fault of the script: raised where the server is left
            self._failures.append(error)
        finally:
            writer.close()


# Certificates


def make_certificate(folder: Path, host: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for this host: its file, for who is to trust it, and the context of a server."""
    need("openssl")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    name = f"IP:{host}" if host[0].isdigit() else f"DNS:{host}"
    wanted = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={host}"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", *wanted.split(), *files, "-addext", f"subjectAltName={name}"], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
