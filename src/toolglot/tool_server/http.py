"""The server over Streamable HTTP, with the gateway's checks: hosts, origins, keys, sizes and times."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from toolglot.config.schema import Limits, ServerConfig
from toolglot.errors import ApiError, ToolglotError, error_status
from toolglot.server.asgi_request import Receive, Scope, Send
from toolglot.server.http_protocol import make_protocol
from toolglot.server.request_body import BodyError, ClientGone, decode_headers, read_body
from toolglot.server.request_head import ConnectionLimits
from toolglot.server.run import listener_url
from toolglot.server.security import Guard
from toolglot.tool_server.stdio import MAX_MESSAGE
from toolglot.wire import json

PATH = "/mcp"
MAX_CONNECTIONS = 128
MAX_SESSIONS = 256
"""Maximum sessions of clients with the older protocol version; others have none."""
DRAIN = 5
"""Seconds for running calls after a signal."""

_NOT_FOUND = ApiError(kind="not_found", message=f"MCP is served at {PATH} alone")


class McpEndpoint:
    """The ASGI app. Rejected requests never reach the SDK."""

    def __init__(self, sessions: StreamableHTTPSessionManager, server: ServerConfig) -> None:
        self._sessions = sessions
        self._guard = Guard(server)
        self._limits = Limits(body=MAX_MESSAGE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = decode_headers(scope["headers"])
        verdict = self._guard.check(scope["method"], headers)
        error = verdict.error or self._guard.identify(headers, {})[1]
        if error is None and scope["path"] != PATH:
            error = _NOT_FOUND
        if error is not None:
            await _refuse(send, error)
            return
        try:
            body = await read_body(scope, receive, self._limits) if scope["method"] == "POST" else None
        except ClientGone:
            return
        except BodyError as refused:
            await _refuse(send, refused.error)
            return
        await self._sessions.handle_request(_plain(scope), _replayed(body, receive), send)


def _plain(scope: Scope) -> Scope:
    """Return the request without its content encoding: the body is inflated."""
    dropped = (b"content-encoding", b"content-length")
    return {**scope, "headers": [field for field in scope["headers"] if field[0] not in dropped]}


def _replayed(body: bytes | None, receive: Receive) -> Receive:
    """Return a receiver that begins with a body that was already read."""
    waiting = [] if body is None else [body]

    async def replay() -> Any:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


async def _refuse(send: Send, error: ApiError) -> None:
    body = json.encode({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": error.message}})
    status = error_status(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Uvicorn(uvicorn.Server):
    """uvicorn with a callback once it listens."""

    def __init__(self, app: McpEndpoint, on_ready: Callable[[], None]) -> None:
        self._on_ready = on_ready
        super().__init__(
            uvicorn.Config(
                app,
                http=make_protocol(ConnectionLimits(connections=MAX_CONNECTIONS, health=frozenset())),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()


class CannotListenError(ToolglotError):
    """The address is in use or not available."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket to serve on. Raises `CannotListenError`."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise CannotListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


async def serve_http(
    server: Server[Any], listener: socket.socket, config: ServerConfig, on_ready: Callable[[str], None]
) -> None:
    """Serve until a signal ends it."""
    sessions = StreamableHTTPSessionManager(server, max_request_body_size=MAX_MESSAGE, max_sessions=MAX_SESSIONS)

    def ready() -> None:
        on_ready(f"{listener_url(listener)}{PATH}")

    async with sessions.run():
        _outlive_signals()
        await _Uvicorn(McpEndpoint(sessions, config), ready).serve([listener])


def _outlive_signals() -> None:
    """Ignore repeated signals. uvicorn drains on a signal and then raises it again, which would kill the process before
    its cleanup.
    """
    with suppress(ValueError):  # not the main thread: then uvicorn handles no signals either
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)
