"""The way to an upstream over the network: HTTP/1.1 on aiohttp.

What it keeps to:

- One `Call` is one request. Nothing is sent twice: a connection that breaks is told to the caller, who knows the retry
  policy. An idle connection of the pool may have been closed by the upstream while the request was on its way; whether
  it was read nobody can tell (RFC 9112, 9.3.1), so that is a `reset` like any other.
- No cookies, no netrc and no redirects: a 3xx is a reply, so that a credential never goes where it was not sent.
- Nothing is asked for in compressed form. An upstream that compresses all the same is inflated in small pieces
  (gzip, deflate) or refused (anything else), so that no reply grows in memory.
- Bytes are handed on as they come. What nobody reads stays with the upstream: the buffer holds 128 KB at most.
- A reply that is given up, a cancelled `send` and a cancelled iteration cut the socket at once, also when the request
  is not wholly written yet.
- Errors name the host, never the rest of the address, and quote nothing that a peer or the configuration said.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from yarl import URL

from toolglot.upstream import body
from toolglot.upstream.http_rules import (
    BAD_HEADER,
    KEEP_ALIVE,
    MAX_FIELD,
    MAX_FIELDS,
    MAX_HEADS,
    MAX_LINE,
    NO_ADDRESS,
    READ_BUFFER,
    USER_AGENT,
    WHOLE_BODY,
    reason,
    url_of,
)
from toolglot.upstream.progress import AnswerProgress, no_progress
from toolglot.upstream.surroundings import Proxies, certificates
from toolglot.upstream.transport import Call, Timeouts, TransportError, TransportFailure
from toolglot.upstream.url import Url

if TYPE_CHECKING:
    from aiohttp.connector import Connection


class _Patience:
    """How long a call waits for one thing after the other: a place in the pool, a connection, the head of its answer.

    The first two have the same number of seconds but not the same ones: a queue of our own is no fault of the upstream.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self._until = asyncio.get_running_loop().time() + timeouts.connect
        self.connecting = asyncio.timeout_at(self._until)
        self.queued = False

    def queue(self) -> None:
        self.queued = True
        self.connecting.reschedule(self._until)

    def connect(self) -> None:
        self.queued = False
        self.connecting.reschedule(asyncio.get_running_loop().time() + self.timeouts.connect)

    def answer(self) -> float:
        """There is a connection; so many seconds are left for the answer on it."""
        self.connecting.reschedule(None)
        return self.timeouts.first_byte


_patience: ContextVar[_Patience] = ContextVar("patience")
"""That of the call of this task."""


def _tracing() -> aiohttp.TraceConfig:
    """The way in which aiohttp tells that a call waits for a place in the pool. It does so in the call's task."""

    async def queued(*_: object) -> None:
        _patience.get().queue()

    async def served(*_: object) -> None:
        _patience.get().connect()

    trace = aiohttp.TraceConfig()
    trace.on_connection_queued_start.append(queued)
    trace.on_connection_queued_end.append(served)
    return trace


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
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def send(self, call: Call) -> HttpReply:
        url = url_of(call.url)
        secure = url.scheme == "https"
        headers = {"user-agent": USER_AGENT, **call.headers, "accept-encoding": "identity"}
        proxy = self._proxies.find(url)
        proxy_headers = proxy.headers if proxy is not None else None
        if proxy_headers and not secure:  # without a tunnel the proxy reads the request's own headers
            headers.update(proxy_headers)
            proxy_headers = None
        patience = _Patience(call.timeouts)
        token = _patience.set(patience)
        try:
            with _told(url):
                async with patience.connecting:
                    response = await self._open().request(
                        call.method,
                        URL(call.url, encoded=True),
                        headers=headers,
                        # Large bodies are written piece by piece, as fast as the upstream reads.
                        data=BytesIO(call.body) if len(call.body) > WHOLE_BODY else call.body or None,
                        allow_redirects=False,
                        proxy=str(proxy.url) if proxy is not None else None,
                        proxy_headers=dict(proxy_headers) if proxy_headers else None,
                        ssl=self._context() if secure else True,
                        timeout=aiohttp.ClientTimeout(),
                    )
        except TimeoutError:
            raise self._late(patience, url) from None
        finally:
            _patience.reset(token)
        return HttpReply(response, url, call)

    def _late(self, patience: _Patience, url: Url) -> TransportError:
        if patience.queued:
            return TransportError("pool", f"toolglot has all {self._max_connections} connections to upstreams in use")
        seconds = patience.timeouts.connect
        return TransportError("connect", f"{url.authority} did not take a connection within {seconds:g} seconds")

    async def close(self) -> None:
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError("connect", "the gateway is shutting down")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._max_connections, keepalive_timeout=KEEP_ALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=_Response,
                trace_configs=[_tracing()],
                auto_decompress=False,
                read_bufsize=READ_BUFFER,  # it stops reading from the socket at twice as much
                max_line_size=MAX_LINE,
                max_field_size=MAX_FIELD,
                max_headers=MAX_FIELDS,
            )
        return self._session

    def _context(self) -> ssl.SSLContext:
        """Made with the first call that needs one: reading the certificates takes longer than all the rest."""
        if self._tls is None:
            self._tls = certificates(self._environment)
        return self._tls


class HttpReply:
    """The head of an answer, and the way to its body."""

    def __init__(self, response: aiohttp.ClientResponse, url: Url, call: Call) -> None:
        self._response = response
        self._url = url
        self._call = call
        self._ended = False
        self._progress = AnswerProgress(call.timeouts.progress, asyncio.get_running_loop().time())
        self._read_at: float | None = None
        self.status = response.status
        self.headers: Mapping[str, str] = _headers(response)

    @property
    def host(self) -> str:
        return self._url.authority

    async def read(self, limit: int) -> bytes:
        return await body.read(self, limit)

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return body.chunks(self)

    def end(self) -> None:
        self._ended = True

    def close(self) -> None:
        if self._ended:
            self._response.release()
        else:
            self._response.close()

    async def next(self) -> tuple[bytes, TransportError | None]:
        content, idle, progress = self._response.content, self._call.timeouts.idle, self._progress
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._read_at is not None:
            progress.pause(now - self._read_at)
        until = min(now + idle, progress.deadline)
        try:
            async with asyncio.timeout_at(until):
                with _told(self._url):
                    data = await content.readany()
        except TimeoutError:
            host = self._url.authority
            silent = f"{host} has been silent for {idle:g} seconds"
            text = silent if until == now + idle else no_progress(host, self._call.timeouts.progress)
            return b"", TransportError("timeout", text)
        except TransportError as broken:
            # aiohttp has them still, but gives them to nobody once it knows of the break.
            return content._read_nowait(-1), broken
        self._read_at = now = loop.time()
        if now >= progress.observe_at:
            progress.observe(data, now)
        return data, None


class _Response(aiohttp.ClientResponse):
    """A response that is waited for only so long, and whose connection does not linger when it is given up."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        host, patience = self.url.host_port_subcomponent or "", _patience.get().answer()
        try:
            if connection.protocol is not None and connection.protocol.should_close:
                # Something came before the request could be read: the answer to nothing, such as a 408 on an idle
                # connection. Taken for the answer to this request it would put all later ones out of step.
                raise TransportError("reset", f"{host} spoke before it was asked")
            async with asyncio.timeout(patience):
                with _few_interim(connection, host):
                    return await super().start(connection)
        except BaseException as error:
            _abort(connection)
            if isinstance(error, TimeoutError):
                raise TransportError("timeout", f"{host} did not answer within {patience:g} seconds") from None
            raise

    def close(self) -> None:
        if self.connection is not None:
            _abort(self.connection)
        super().close()


@contextmanager
def _few_interim(connection: Connection, host: str) -> Iterator[None]:
    """Bounds the interim heads (1xx) before an answer: aiohttp reads on past as many as come, without a pause."""
    protocol = connection.protocol
    if protocol is None:
        yield
        return
    read, heads = protocol.read, 0

    async def counted() -> Any:
        nonlocal heads
        heads += 1
        if heads > MAX_HEADS:
            raise TransportError("reset", f"{host} sent more than {MAX_HEADS} heads for one answer")
        return await read()

    protocol.read = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        del protocol.read


def _abort(connection: Connection) -> None:
    """Without this a socket stays open until all that is written has been read, which may be never."""
    if connection.transport is not None:
        connection.transport.abort()


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return headers


_TLS = (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError, ssl.SSLError, ssl.CertificateError)

_FAILURES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], TransportFailure, str], ...] = (
    (_TLS, "tls", "no secure connection to {host}: {reason}"),
    (aiohttp.ClientHttpProxyError, "connect", "the proxy did not let through to {host}: status {status}"),
    (aiohttp.ClientProxyConnectionError, "connect", "the proxy on the way to {host} cannot be reached: {reason}"),
    (aiohttp.ClientConnectorDNSError, "connect", "the name {host} cannot be found"),
    (aiohttp.ClientConnectorError, "connect", "{host} cannot be reached: {reason}"),
    (aiohttp.InvalidURL, "connect", NO_ADDRESS),
    (LineTooLong, "too_large", "{host} answered with a header over the limit"),
    ((aiohttp.ClientResponseError, HttpProcessingError), "reset", "{host} answered with what is not HTTP"),
    (aiohttp.ClientPayloadError, "reset", "{host} broke off its answer"),
    (aiohttp.ServerDisconnectedError, "reset", "{host} closed the connection without an answer"),
    ((aiohttp.ClientError, OSError), "reset", "the connection to {host} broke: {reason}"),
    (ValueError, "connect", BAD_HEADER),
)
"""What an exception stands for; the first row that fits."""


@contextmanager
def _told(url: Url) -> Iterator[None]:
    """Whatever goes wrong on the wire, as a `TransportError`."""
    try:
        yield
    except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
            raise  # the patience of whoever is reading
        cause = error.__cause__
        kind = cause.__cause__ if cause is not None and isinstance(cause.__cause__, LineTooLong) else error
        for exceptions, failure, text in _FAILURES:
            if isinstance(kind, exceptions):
                told = {"host": url.authority, "reason": reason(error), "status": getattr(error, "status", 0)}
                raise TransportError(failure, text.format(**told)) from None
        raise
