"""The HTTP client for upstreams: HTTP/1.1 on httptools, with callbacks or with coroutines.

`begin` writes a request on an idle connection and tells the answer from inside the event loop's own reading, without a
task, a timer or a future. `connect` opens a connection first, and `send` does either for a caller that awaits.

- One `Call` is one request. Nothing is sent twice: a connection that breaks is reported to the caller, who knows the
  retry policy. An upstream may close an idle connection of the pool while a request is on its way; nobody can tell
  whether the request was read (RFC 9112, 9.3.1), so that is a `reset` like any other.
- No cookies, no netrc and no redirects: a 3xx is a reply, so that a credential never goes where it was not sent.
- Nothing is asked for in compressed form. An upstream that compresses all the same is inflated in small pieces
  (gzip, deflate) or refused (anything else), so that no reply grows in memory.
- Bytes are handed on as they come. What nobody reads stays with the upstream.
- A reply that is given up, a cancelled `send` and a cancelled iteration cut the socket at once, also when the request
  is not wholly written yet.
- Errors name the host, never the rest of the address, and quote nothing that a peer or the configuration said.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping

from toolglot.upstream.http_client.connection import Connection
from toolglot.upstream.http_client.destination import Destination, parsed, request_head
from toolglot.upstream.http_client.dial import dial
from toolglot.upstream.http_client.names import Names
from toolglot.upstream.http_client.pool import Pool
from toolglot.upstream.http_client.reply import HttpReply
from toolglot.upstream.http_client.sending import Receiver, Sending
from toolglot.upstream.http_client.sessions import resuming
from toolglot.upstream.surroundings import Proxies
from toolglot.upstream.transport import Call, Timeouts, TransportError
from toolglot.upstream.url import Url

MAX_DESTINATIONS = 1024
_SAFE_TWICE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""What may be asked again (RFC 9110, 9.2.2) when an idle connection turns out to have been closed."""
_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class HttpTransport:
    """Calls over one pool of connections, which is opened with the first call and belongs to that call's event loop.

    Args:
        max_connections: how many may be in use at once; a call over that waits, as long as it may for a connection.
        environment: where `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and the like are looked up.
    """

    def __init__(self, max_connections: int = 1000, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._max_connections = max_connections
        self._environment = environment
        self._proxies = Proxies(environment)
        self._destinations: dict[tuple[str, str, int], Destination] = {}
        self._names = Names()
        self._pool: Pool | None = None
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    # Where

    def destination(self, url: str) -> Destination:
        """The other end of calls to this address; the same object for the same end. Raises `TransportError`."""
        address = parsed(url)
        key = (address.scheme, address.host, address.port)
        known = self._destinations.get(key)
        if known is None:
            if len(self._destinations) >= MAX_DESTINATIONS:
                self._destinations.clear()
            known = self._destinations[key] = self._destination(address)
        return known

    def _destination(self, url: Url) -> Destination:
        proxy = self._proxies.find(url)
        return Destination(
            host=url.host,
            port=url.port,
            name=url.authority,
            tls=self._context() if url.scheme == "https" else None,
            proxy=proxy,
            proxy_tls=self._context() if proxy is not None and proxy.url.scheme == "https" else None,
        )

    def _context(self) -> ssl.SSLContext:
        """Made with the first call that needs one: reading the certificates takes longer than all the rest."""
        if self._tls is None:
            self._tls = resuming(self._environment)
        return self._tls

    # With callbacks

    def begin(
        self, destination: Destination, request_head: bytes, body: bytes, timeouts: Timeouts, receiver: Receiver
    ) -> Sending | None:
        """Write a request on an idle connection at once; None when there is none that may be used.

        `request_head` ends before the length of the body, which is written here (`destination.request_head` makes
        one). The receiver is told nothing before this has returned.
        """
        pool = self._pool
        if pool is None:
            return None
        now = pool.loop.time()
        connection = pool.idle(destination, now)
        return None if connection is None else connection.send(request_head, body, timeouts, receiver, now)

    async def connect(
        self, destination: Destination, request_head: bytes, body: bytes, timeouts: Timeouts, receiver: Receiver
    ) -> Sending:
        """The same on a new connection, or on one that becomes idle meanwhile. Raises `TransportError`."""
        connection = await self._connection(destination, timeouts, fresh=False)
        return connection.send(request_head, body, timeouts, receiver, self._open().loop.time())

    async def _connection(self, destination: Destination, timeouts: Timeouts, fresh: bool) -> Connection:
        """A connection and a place to use it from: that of one that became idle, unless it has to be a `fresh` one."""
        pool = self._open()
        try:
            async with asyncio.timeout(timeouts.connect):
                await pool.enter()
        except TimeoutError:
            text = f"toolglot has all {self._max_connections} connections to upstreams in use"
            raise TransportError("pool", text) from None
        connection = None if fresh else pool.take(destination, pool.loop.time())
        if connection is not None:
            return connection
        connection = Connection(pool, destination, pool.loop)
        try:
            async with asyncio.timeout(timeouts.connect):
                await dial(self._names, connection)
        except TimeoutError:
            pool.leave()
            text = f"{destination.name} did not take a connection within {timeouts.connect:g} seconds"
            raise TransportError("connect", text) from None
        except BaseException:
            pool.leave()
            raise
        return connection

    # With coroutines

    async def send(self, call: Call) -> HttpReply:
        self._open()
        destination = self.destination(call.url)
        head = request_head(call, destination)
        reply, sending = await self._sent(call, destination, head, fresh=False)
        try:
            return await _answered(reply, sending)
        except TransportError:
            if not (sending.reused and sending.unanswered and call.method in _SAFE_TWICE):
                raise
        return await _answered(*await self._sent(call, destination, head, fresh=True))

    async def _sent(self, call: Call, destination: Destination, head: bytes, fresh: bool) -> tuple[HttpReply, Sending]:
        reply, pool = HttpReply(destination.name), self._open()
        connection = None if fresh else pool.idle(destination, pool.loop.time())
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

    def _open(self) -> Pool:
        if self._closed:
            raise TransportError("connect", "the gateway is shutting down")
        if self._pool is None:
            self._pool = Pool(self._max_connections, asyncio.get_running_loop())
        return self._pool

    async def close(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # the loop closes sockets in its next turn


async def _answered(reply: HttpReply, sending: Sending) -> HttpReply:
    try:
        await reply.head(sending)
    except BaseException:
        sending.abort()
        raise
    return reply
