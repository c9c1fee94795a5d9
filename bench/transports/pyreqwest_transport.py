"""The way to an upstream on pyreqwest, which is Rust's reqwest with its own thread: a candidate, here to be measured.

It keeps to the contract of `toolglot.upstream.transport` as far as the library lets it; what it does not let is in
`differences.py`. Some things are done here because the library has them for a whole client or not at all:

- Places in the pool are counted here: a client's limit has one patience for all calls, and so has connecting. There is
  a client for each proxy and each patience of connecting, of which a configuration has few.
- What kind of failure an exception stands for is read out of the texts of its causes: one class, `ConnectError`, stands
  for a server that cannot be reached and for one that closes the connection on which a request was sent.
- The library asks for up to 64 KB of a stream before it gives any of it, unless it is told not to.
- It does not tell when there is a connection, so that the time for an answer begins before.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import ConnectTimeoutError, PyreqwestError
from pyreqwest.proxy import ProxyBuilder
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from toolglot.upstream import body
from toolglot.upstream.http_rules import BAD_HEADER, KEEP_ALIVE, MAX_FIELD, USER_AGENT, url_of
from toolglot.upstream.surroundings import Proxies, Proxy, certificates
from toolglot.upstream.transport import Call, Reply, TransportError, TransportFailure
from toolglot.upstream.url import Url

AT_ONCE = 0
"""Bytes of a stream that the library may wait for."""
SWITCHING_PROTOCOLS = 101
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


class _Line(NamedTuple):
    """What the calls of one client have in common."""

    connect: float
    secure: bool
    proxy: str = ""
    proxy_credential: str = ""


class PyreqwestTransport:
    """Calls over the connections of as many clients of the library as it takes.

    Args:
        max_connections: how many may be in use at once; a call over that waits, as long as it may for a connection.
        environment: where `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and the like are looked up.
    """

    def __init__(self, max_connections: int = 1000, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._proxies = Proxies(self._environment)
        self._max_connections = max_connections
        self._places = asyncio.Semaphore(max_connections)
        self._clients: dict[_Line, Client] = {}
        self._under_way: set[PyreqwestReply] = set()
        self._closed = False

    async def send(self, call: Call) -> Reply:
        if self._closed:
            raise TransportError("connect", "the gateway is shutting down")
        url = url_of(call.url)
        proxy = self._proxies.find(url)
        request = self._request(call, url, proxy)
        await self._place(call)
        try:
            async with asyncio.timeout(call.timeouts.first_byte):
                response = await request.__aenter__()
        except BaseException as error:
            self._places.release()
            raise _told(error, call, url, proxy) from None
        reply = PyreqwestReply(self, request, response, url, call)
        self._under_way.add(reply)
        if (refused := _refused(reply)) is not None:
            reply.close()
            # The library may have read the answer to its end already, and kept the connection with those of its client.
            self._clients.pop(_line(call, url, proxy), None)
            raise refused
        return reply

    async def close(self) -> None:
        self._closed = True
        for reply in list(self._under_way):
            reply.close()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    def leave(self, reply: PyreqwestReply) -> None:
        """The place of this reply is free."""
        if reply in self._under_way:
            self._under_way.remove(reply)
            self._places.release()

    def _request(self, call: Call, url: Url, proxy: Proxy | None) -> StreamRequest:
        headers = {"user-agent": USER_AGENT, **call.headers, "accept-encoding": "identity"}
        client = self._client(_line(call, url, proxy))
        try:
            builder = client.request(call.method, call.url).headers(headers)
        except ValueError:
            raise TransportError("connect", BAD_HEADER.format(host=url.authority)) from None
        if call.body:
            builder = builder.body_bytes(call.body)
        return builder.streamed_read_buffer_limit(AT_ONCE).build_streamed()

    async def _place(self, call: Call) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(call.timeouts.connect):
                await self._places.acquire()
        except TimeoutError:
            told = f"toolglot has all {self._max_connections} connections to upstreams in use"
            raise TransportError("pool", told) from None

    def _client(self, line: _Line) -> Client:
        known = self._clients.get(line)
        if known is None:
            known = self._clients[line] = self._new_client(line)
        return known

    def _new_client(self, line: _Line) -> Client:
        builder = (
            ClientBuilder()
            .no_proxy()  # those of the process's environment
            .follow_redirects(False)
            .referer(False)
            .gzip(False)
            .brotli(False)
            .deflate(False)
            .zstd(False)
            .http1_lower_case_headers()
            .pool_idle_timeout(timedelta(seconds=KEEP_ALIVE))
            .connect_timeout(timedelta(seconds=line.connect))
        )
        if line.proxy:
            proxy = ProxyBuilder.all(line.proxy)
            builder = builder.proxy(proxy.custom_http_auth(line.proxy_credential) if line.proxy_credential else proxy)
        secure = line.secure or line.proxy.startswith("https:")
        if secure:
            for certificate in _roots(self._environment):
                builder = builder.add_root_certificate_pem(certificate)
        return builder.build()


def _roots(environment: Mapping[str, str]) -> Iterator[bytes]:
    """The certificates that the environment names. The library trusts them beside the system's, not in their place."""
    named = [Path(environment[name]) for name in CERTIFICATES if environment.get(name)]
    if named:
        certificates(environment)  # tells if one cannot be read
    for path in named:
        for file in path.iterdir() if path.is_dir() else (path,):
            yield from _PEM.findall(file.read_bytes())


def _line(call: Call, url: Url, proxy: Proxy | None) -> _Line:
    connect, secure = call.timeouts.connect, url.scheme == "https"
    if proxy is None:
        return _Line(connect, secure)
    return _Line(connect, secure, str(proxy.url), proxy.headers.get("proxy-authorization", ""))


class PyreqwestReply:
    """The head of an answer, and the way to its body."""

    def __init__(
        self, transport: PyreqwestTransport, request: StreamRequest, response: Response, url: Url, call: Call
    ) -> None:
        self._transport = transport
        self._request = request
        self._reader = response.body_reader
        self._url = url
        self._call = call
        self._ended = False
        self.status: int = response.status
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
        self._transport.leave(self)

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            _at_once(self._request.__aexit__(None, None, None))
        self._transport.leave(self)

    async def next(self) -> tuple[bytes, TransportError | None]:
        idle = self._call.timeouts.idle
        try:
            async with asyncio.timeout(idle):
                piece = await self._reader.read_chunk()
        except TimeoutError:
            return b"", TransportError("timeout", f"{self.host} has been silent for {idle:g} seconds")
        except PyreqwestError as error:
            return b"", _failure(error, self._call, self._url, None)
        return b"" if piece is None else bytes(piece), None


def _at_once(closing: Coroutine[Any, Any, None]) -> None:
    """Its first step cuts the connection, and there is none after it."""
    with suppress(StopIteration):
        closing.send(None)
    closing.close()


def _headers(response: Response) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _refused(reply: PyreqwestReply) -> TransportError | None:
    """Heads that the library takes, and that nobody should: of two ends, coded in ways not asked for, or too large."""
    headers = reply.headers
    coding, length = headers.get("transfer-encoding"), headers.get("content-length", "")
    if any(len(value) > MAX_FIELD for value in headers.values()):
        return TransportError("too_large", f"{reply.host} answered with a header over the limit")
    coded = coding is not None and (coding.lower() != "chunked" or bool(length))
    if coded or "," in length or reply.status == SWITCHING_PROTOCOLS:
        return TransportError("reset", f"{reply.host} answered with what is not HTTP")
    return None


_FAILURES: tuple[tuple[str, TransportFailure, str], ...] = (
    # More headers than its hundred, or more than 400 KB of them: the same text for both.
    ("message head is too large", "reset", "{host} answered with too many headers"),
    ("certificate", "tls", "no secure connection to {host}: the certificate is not valid"),
    ("received corrupt message", "tls", "no secure connection to {host}: the handshake failed"),
    ("tls handshake", "tls", "no secure connection to {host}: the handshake failed"),
    ("tunnel", "connect", "the proxy did not let through to {host}"),
    ("proxy", "connect", "the proxy did not let through to {host}"),
    ("dns error", "connect", "the name {host} cannot be found"),
    ("client error (Connect)", "connect", "{way} cannot be reached: {reason}"),
    ("parsed", "reset", "{host} answered with what is not HTTP"),
    ("", "reset", "the connection to {host} broke: {reason}"),
)
"""What an exception stands for, by a text in its causes; the first row that fits."""


def _failure(error: PyreqwestError, call: Call, url: Url, proxy: Proxy | None) -> TransportError:
    host = url.authority
    if isinstance(error, ConnectTimeoutError):
        seconds = call.timeouts.connect
        return TransportError("connect", f"{host} did not take a connection within {seconds:g} seconds")
    told = [cause["message"] for cause in (getattr(error, "details", None) or {}).get("causes") or ()]
    causes = " / ".join(text for text in told if " for url (" not in text)  # addresses may have any words in them
    number = re.search(r"\(os error (\d+)\)", causes)
    reason = os.strerror(int(number[1])) if number else "it was closed"
    way = host if proxy is None else f"the proxy on the way to {host}"
    failure, text = next((failure, text) for part, failure, text in _FAILURES if part in causes)
    return TransportError(failure, text.format(host=host, way=way, reason=reason))


def _told(error: BaseException, call: Call, url: Url, proxy: Proxy | None) -> BaseException:
    """Whatever goes wrong on the wire, as a `TransportError`."""
    if isinstance(error, PyreqwestError):
        return _failure(error, call, url, proxy)
    if isinstance(error, TimeoutError):
        seconds = call.timeouts.first_byte
        return TransportError("timeout", f"{url.authority} did not answer within {seconds:g} seconds")
    return error
