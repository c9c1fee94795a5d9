"""Run `toolglot mcp`: a gateway if models may be asked, the server, and its transport."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from msgspec import Struct

from toolglot.config.schema import LogConfig, ServerConfig
from toolglot.gateway.gateway import Gateway
from toolglot.server import logs
from toolglot.server.request_log import RequestLog
from toolglot.server.security import check_bind
from toolglot.server.startup import StartOptions, load_options, start_gateway
from toolglot.tool_server.ask_model import ModelAsker
from toolglot.tool_server.http import listen, serve_http
from toolglot.tool_server.server import make_server
from toolglot.tool_server.stdio import serve_stdio
from toolglot.upstream.http_client import HttpTransport


class ToolServerOptions(Struct, frozen=True, kw_only=True):
    """The command line options."""

    address: tuple[str, int] | None = None
    """The HTTP address; None serves standard input and output."""
    keys: tuple[str, ...] = ()
    """Keys that HTTP clients must present."""
    asks: StartOptions | None = None
    """The gateway whose models may be asked, if any."""
    ask_timeout: float = 300.0


def run(options: ToolServerOptions, environ: Mapping[str, str], on_ready: Callable[[str], None]) -> None:
    """Serve until the input ends, or a signal comes.

    Raises:
        ConfigError, UnsafeServerError, CannotListenError: before it begins.
    """
    asyncio.run(_run(options, environ, on_ready))


async def _run(options: ToolServerOptions, environ: Mapping[str, str], on_ready: Callable[[str], None]) -> None:
    async with AsyncExitStack() as open_things:
        listener, server = _listener(options)
        if listener is not None:
            open_things.callback(listener.close)
        gateway = None if options.asks is None else await _gateway(options.asks, environ, open_things)
        log = LogConfig(level="warning") if gateway is None else gateway.config.log

        def hidden() -> tuple[str, ...]:
            return (*options.keys, *(() if gateway is None else gateway.secrets))

        _set_up_logs(log, hidden)
        tools = make_server(
            None if gateway is None else ModelAsker(gateway, options.ask_timeout, RequestLog(log, hidden))
        )
        if listener is None:
            await serve_stdio(tools)
        else:
            await serve_http(tools, listener, server, on_ready)


async def _gateway(options: StartOptions, environ: Mapping[str, str], open_things: AsyncExitStack) -> Gateway:
    """Return the gateway that `toolglot serve` would run here, without listening."""
    config, _, _ = load_options(options, environ)
    transport = HttpTransport(config.limits.upstream_connections, environ)
    open_things.push_async_callback(transport.close)
    return (await start_gateway(options, environ, transport)).gateway


def _listener(options: ToolServerOptions) -> tuple[socket.socket | None, ServerConfig]:
    """Open the listening socket early, so that its errors are reported at once."""
    if options.address is None:
        return None, ServerConfig()
    host, port = options.address
    server = ServerConfig(host=host, port=port, keys=options.keys)
    check_bind(server)
    return listen(host, port), server


def _set_up_logs(config: LogConfig, hidden: Callable[[], tuple[str, ...]]) -> None:
    """Log errors of this package and the SDK to standard error, without secrets. Standard output belongs to the
    protocol."""
    logs.set_up(config, hidden)
    sdk = logging.getLogger("mcp")
    sdk.handlers = list(logging.getLogger("toolglot").handlers)
    sdk.propagate = False
    sdk.setLevel(logging.ERROR)
