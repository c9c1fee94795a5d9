"""The HTTP client for upstreams: HTTP/1.1 on httptools, with callbacks or with coroutines.

`begin` writes a request on an idle connection and delivers the answer from the event loop's own read callback, without
a task, timer or future. `connect` opens a connection first. `send` does either for a caller that awaits.

- One `UpstreamCall` is one request. Nothing is sent twice: a broken connection is reported to the caller, who knows the
  retry policy. An upstream may close an idle pooled connection while a request is in flight; the caller cannot know
  whether it read the request (RFC 9112, 9.3.1), so this is a `reset` like any other.
- No cookies, no netrc and no redirects: a 3xx is a reply, so a credential never reaches another host.
- Requests do not ask for compression. A compressed answer is inflated in small pieces (gzip, deflate) or refused
  (anything else), so that no reply grows in memory.
- Bytes are delivered as they arrive. Unread data stays with the upstream.
- Closing a reply early, or canceling `send` or an iteration, closes the socket at once, even if the request is not
  completely written.
- Errors name the host only, and quote nothing that a peer or the configuration said.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping

from toolglot.upstream.http_client.connection import Connection
from toolglot.upstream.http_client.destination import Destination, parse_url, request_head
from toolglot.upstream.http_client.dial import dial
from toolglot.upstream.http_client.in_flight import AnswerReceiver, InFlightRequest
from toolglot.upstream.http_client.pool import ConnectionPool
from toolglot.upstream.http_client.reply import HttpReply
from toolglot.upstream.http_client.resolver import Resolver
from toolglot.upstream.http_client.tls_sessions import resuming_context
from toolglot.upstream.proxy_env import ProxySettings
from toolglot.upstream.transport import Timeouts, TransportError, UpstreamCall
from toolglot.upstream.url import Url

MAX_DESTINATIONS = 1024
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be retried (RFC 9110, 9.2.2) when an idle connection turns out to be closed."""
_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class HttpTransport:
    """Calls over one connection pool, which opens with the first call and belongs to that call's event loop.

    Args:
        max_connections: number of connections in use at once. Further calls wait, up to their connect timeout.
        environment: source of `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and the like.
    """

    def __init__(self, max_connections: int = 1000, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._max_connections = max_connections
        self._environment = environment
        self._proxies = ProxySettings(environment)
        self._destinations: dict[tuple[str, str, int], Destination] = {}
        self._names = Resolver()
        self._pool: ConnectionPool | None = None
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    # Destinations

    def destination(self, url: str) -> Destination:
        """Return the destination of calls to this address, the same object for equal destinations. Raises
        `TransportError`."""
        address = parse_url(url)
        key = (address.scheme, address.host, address.port)
        known = self._destinations.get(key)
        if known is None:
            if len(self._destinations) >= MAX_DESTINATIONS:
                self._destinations.clear()
            known = self._destinations[key] = self._make_destination(address)
        return known

    def _make_destination(self, url: Url) -> Destination:
        proxy = self._proxies.find(url)
        return Destination(
            host=url.host,
            port=url.port,
            name=url.authority,
            tls=self._tls_context() if url.scheme == "https" else None,
            proxy=proxy,
            proxy_tls=self._tls_context() if proxy is not None and proxy.url.scheme == "https" else None,
        )

    def _tls_context(self) -> ssl.SSLContext:
        """Create the TLS context on first use, because reading the certificates takes longer than everything else."""
        if self._tls is None:
            self._tls = resuming_context(self._environment)
        return self._tls

    # With callbacks

    def begin(
        self, destination: Destination, request_head: bytes, body: bytes, timeouts: Timeouts, receiver: AnswerReceiver
    ) -> InFlightRequest | None:
        """Write a request on an idle connection at once; None if there is none. `request_head` ends before the content
        length, which is added here (see `destination.request_head`). The receiver gets no callback before this returns.
        """
        pool = self._pool
        if pool is None:
            return None
        now = pool.loop.time()
        connection = pool.acquire_idle(destination, now)
        return None if connection is None else connection.send(request_head, body, timeouts, receiver, now)

    async def connect(
        self, destination: Destination, request_head: bytes, body: bytes, timeouts: Timeouts, receiver: AnswerReceiver
    ) -> InFlightRequest:
        """Begin the call as `begin` does, on a new connection or on one that becomes idle meanwhile. Raises
        `TransportError`."""
        connection = await self._connection(destination, timeouts, fresh=False)
        return connection.send(request_head, body, timeouts, receiver, self._open_pool().loop.time())

    async def _connection(self, destination: Destination, timeouts: Timeouts, fresh: bool) -> Connection:
        """Return a connection and its slot; a connection that became idle may be returned unless `fresh`."""
        pool = self._open_pool()
        try:
            async with asyncio.timeout(timeouts.connect):
                await pool.acquire()
        except TimeoutError:
            text = f"toolglot has all {self._max_connections} connections to upstreams in use"
            raise TransportError("pool", text) from None
        connection = None if fresh else pool.take_idle(destination, pool.loop.time())
        if connection is not None:
            return connection
        connection = Connection(pool, destination, pool.loop)
        try:
            async with asyncio.timeout(timeouts.connect):
                await dial(self._names, connection)
        except TimeoutError:
            pool.release()
            text = f"{destination.name} did not accept a connection within {timeouts.connect:g} seconds"
            raise TransportError("connect", text) from None
        except BaseException:
            pool.release()
            raise
        return connection

    # With coroutines

    async def send(self, call: UpstreamCall) -> HttpReply:
        self._open_pool()
        destination = self.destination(call.url)
        head = request_head(call, destination)
        reply, sending = await self._send_once(call, destination, head, fresh=False)
        try:
            return await _with_connection(reply, sending)
        except TransportError:
            if not (sending.reused and sending.unanswered and call.method in _IDEMPOTENT):
                raise
        return await _with_connection(*await self._send_once(call, destination, head, fresh=True))

    async def _send_once(
        self, call: UpstreamCall, destination: Destination, head: bytes, fresh: bool
    ) -> tuple[HttpReply, InFlightRequest]:
        reply, pool = HttpReply(destination.name), self._open_pool()
        connection = None if fresh else pool.acquire_idle(destination, pool.loop.time())
        if connection is None:
            connection = await self._connection(destination, call.timeouts, fresh)
        without_body = not call.body and call.method in _NO_BODY
        sending = connection.send(
            head,
            None if without_body else call.body,
            call.timeouts,
            reply,
            pool.loop.time(),
            bodiless=call.method == "HEAD",
        )
        return reply, sending

    def _open_pool(self) -> ConnectionPool:
        if self._closed:
            raise TransportError("connect", "the gateway is shutting down")
        if self._pool is None:
            self._pool = ConnectionPool(self._max_connections, asyncio.get_running_loop())
        return self._pool

    async def close(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # the loop closes sockets in its next turn


async def _with_connection(reply: HttpReply, sending: InFlightRequest) -> HttpReply:
    try:
        await reply.head(sending)
    except BaseException:
        sending.abort()
        raise
    return reply
