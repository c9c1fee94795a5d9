"""Open new connections: to the upstream itself, or through a proxy."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from toolglot.config.addresses import is_loopback
from toolglot.upstream.http_client.connection import Connection
from toolglot.upstream.http_client.destination import Destination
from toolglot.upstream.http_client.limits import USER_AGENT, error_reason
from toolglot.upstream.http_client.resolver import Resolver
from toolglot.upstream.proxy_env import Proxy
from toolglot.upstream.transport import TransportError

MAX_TUNNEL_HEAD = 64 * 1024
"""Maximum bytes of a proxy's answer before the tunnel begins."""

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r\n")


async def dial(names: Resolver, connection: Connection) -> None:
    """Open this connection. Raises `TransportError`. Cancellation leaves no socket behind."""
    destination = connection.destination
    if destination.proxy is None:
        await _dial_directly(names, destination, connection)
    elif destination.is_tunneled:
        await _dial_through_tunnel(names, destination, destination.proxy, connection)
    else:
        await _dial_proxy(names, destination, destination.proxy, connection)


async def _dial_directly(names: Resolver, destination: Destination, connection: Connection) -> None:
    with _as_transport_errors(destination, "{host} cannot be reached: {reason}"):
        opened = await names.connect(destination.host, destination.port, destination.name)
        await _attach_protocol(opened, connection, destination.tls, destination.host)


async def _dial_proxy(names: Resolver, destination: Destination, proxy: Proxy, protocol: asyncio.Protocol) -> None:
    with _as_transport_errors(destination, "the proxy on the way to {host} cannot be reached: {reason}"):
        opened = await names.connect(proxy.url.host, proxy.url.port, None)
        await _attach_protocol(opened, protocol, destination.proxy_tls, proxy.url.host)


async def _attach_protocol(
    opened: socket.socket, protocol: asyncio.Protocol, tls: ssl.SSLContext | None, host: str
) -> None:
    await asyncio.get_running_loop().create_connection(
        lambda: protocol,
        sock=opened,
        ssl=tls,
        server_hostname=host.rstrip(".") if tls is not None else None,
    )


async def _dial_through_tunnel(names: Resolver, destination: Destination, proxy: Proxy, connection: Connection) -> None:
    """Connect with CONNECT (RFC 9110, 9.3.6). The proxy sees the upstream's name and nothing of the request."""
    loop = asyncio.get_running_loop()
    tunnel = _TunnelProtocol(loop.create_future())
    await _dial_proxy(names, destination, proxy, tunnel)
    assert tunnel.transport is not None
    try:
        host = f"[{destination.host}]" if ":" in destination.host else destination.host
        target = f"{host}:{destination.port}"
        headers = {"host": target, "user-agent": USER_AGENT, **proxy.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        tunnel.transport.write(f"CONNECT {target} HTTP/1.1\r\n{lines}\r\n".encode())
        status = await tunnel.answer
        if not 200 <= status < 300:
            text = f"the proxy refused a connection to {destination.name}: status {status}"
            raise TransportError("connect", text)
        assert destination.tls is not None
        with _as_transport_errors(destination, "{host} cannot be reached: {reason}"):
            secured = await loop.start_tls(
                tunnel.transport, connection, destination.tls, server_hostname=destination.host.rstrip(".")
            )
            if secured is None:
                raise ConnectionAbortedError
            connection.connection_made(secured)
    except BaseException:
        tunnel.transport.abort()
        raise


class _TunnelProtocol(asyncio.Protocol):
    """Reads the head of a proxy's answer to CONNECT. `answer` is its status, 0 if it is invalid."""

    def __init__(self, answer: asyncio.Future[int]) -> None:
        self.answer = answer
        self.transport: asyncio.Transport | None = None
        self._read = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        searched = max(0, len(self._read) - 3)
        self._read += data
        end = self._read.find(b"\r\n\r\n", searched)
        if end >= 0:
            line = _STATUS_LINE.match(self._read)
            status = int(line[1]) if line is not None else 0
            if 100 <= status < 200:
                del self._read[: end + 4]
                self.data_received(b"")
            # A server waits for the client to speak first, so bytes right after the head come from the proxy.
            elif end + 4 != len(self._read) and 200 <= status < 300:
                self._set_status(0)
            else:
                self._set_status(status)
        elif len(self._read) > MAX_TUNNEL_HEAD:
            self._set_status(0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_status(0)

    def _set_status(self, status: int) -> None:
        if not self.answer.done():
            self.answer.set_result(status)


@contextmanager
def _as_transport_errors(destination: Destination, text: str) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, ssl.CertificateError) as error:
        raise TransportError("tls", f"no secure connection to {destination.name}: {error_reason(error)}") from None
    except OSError as error:
        if isinstance(error, TimeoutError) and error.errno is None:
            raise  # the caller's own timeout
        message = text.format(host=destination.name, reason=error_reason(error))
        not_running = isinstance(error, ConnectionRefusedError) and is_loopback(destination.host)
        raise TransportError("connect", message, not_running=not_running) from None
