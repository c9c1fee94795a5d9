"""A real uvicorn server on loopback with an app that tells what reached it, and raw sockets to talk to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import uvicorn

from tests.waiting import FAILSAFE
from toolglot.config.schema import Limits
from toolglot.errors import error_status
from toolglot.server.http_protocol import HttpServerProtocol, make_protocol
from toolglot.server.request_body import BodyError, ClientGone, read_body
from toolglot.server.request_head import ConnectionLimits

LARGE = b"a" * (16 * 1024 * 1024)
"""More than the kernel keeps for a client that does not read."""

HEAD = b"Host: localhost\r\n"


class App:
    """`/early` answers without reading, `/stream` never ends its answer, `/large` has a very long one, `/broken` gives
    up in the middle; everything else tells the body it got."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.heads: list[tuple[str, str]] = []
        self.disconnected = threading.Event()
        self.streaming = threading.Event()
        self.connection_lost = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.heads.append((scope["method"], scope["path"]))
        if scope["path"] == "/early":
            await self._reply(send, 401, {"error": "early"})
        elif scope["path"] in ("/large", "/broken"):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": LARGE, "more_body": scope["path"] == "/broken"})
        elif scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            self.streaming.set()
            while (await receive())["type"] != "http.disconnect":
                pass
            self.disconnected.set()
        else:
            await self._echo(scope, receive, send)

    async def _echo(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await read_body(scope, receive, self.limits)
        except ClientGone:
            self.disconnected.set()
        except BodyError as refused:
            # No `connection: close`: that the connection ends must not depend on the app.
            await self._reply(send, error_status(refused.error), {"error": refused.error.message})
        else:
            headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
            told = {"path": scope["path"], "body": body.decode("latin-1")[:100], "size": len(body), "headers": headers}
            await self._reply(send, 200, told)

    async def _reply(self, send: Any, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Served:
    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=FAILSAFE)

    def exchange(self, data: bytes) -> bytes:
        """Everything the server says to these bytes until it closes."""
        with self.connect() as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            return until_close(connection)

    def ask(self, path: str = "/echo") -> int:
        """The status that an honest client gets."""
        with self.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return status_of(until_close(connection))


def until_close(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def until_response(connection: socket.socket) -> bytes:
    """One response with a content-length, on a connection that stays open."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        assert piece, f"closed after {data!r}"
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(headers_of(data)["content-length"])
    while len(body) < length:
        piece = connection.recv(65536)
        assert piece, f"closed after {data!r}"
        body += piece
    return head + b"\r\n\r\n" + body


def next_response(stream: BinaryIO) -> bytes:
    """The next of several responses, with its body without chunks; empty at the end. `stream`: of `makefile`."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            assert not head, f"closed after {head!r}"
            return b""
        head += line
    headers = headers_of(head)
    if status_of(head) == 100:
        return next_response(stream)
    if headers.get("transfer-encoding") != "chunked":
        return head + stream.read(int(headers["content-length"]))
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        assert stream.readline() == b"\r\n"
    assert stream.readline() == b"\r\n"
    return head + body


def status_of(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def headers_of(response: bytes) -> dict[str, str]:
    lines = response.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def json_of(response: bytes) -> Any:
    return json.loads(response.partition(b"\r\n\r\n")[2])


def responses_in(data: bytes) -> int:
    return data.count(b"HTTP/1.1 ")


def _watched(gates: ConnectionLimits, app: App) -> type[HttpServerProtocol]:
    class Watched(make_protocol(gates)):  # type: ignore[misc]
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            app.connection_lost.set()

    return Watched


@contextmanager
def serve(
    gates: ConnectionLimits | None = None, limits: Limits | None = None, loop: str = "uvloop", keep_alive: int = 5
) -> Iterator[Served]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    app = App(limits or Limits())
    config = uvicorn.Config(
        app,
        http=_watched(gates or ConnectionLimits(), app),
        loop=loop,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # The socket listens already, so that nobody has to wait until the server does.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Served(app, listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
