"""The destination of a request, computed once per upstream, and the request head as bytes."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, field

from toolglot.upstream.http_client.known_answers import KnownAnswers
from toolglot.upstream.http_client.limits import BAD_HEADER, USER_AGENT, parse_http_url
from toolglot.upstream.proxy_env import Proxy, basic_credential
from toolglot.upstream.transport import Timeouts, TransportError, UpstreamCall
from toolglot.upstream.url import Url

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_FRAMING = frozenset({"content-length", "transfer-encoding"})
"""Framing headers are written with the body and nowhere else."""

_HEADER_CASING = {"host": "Host", "accept": "Accept", "user-agent": "User-Agent"}
"""Our own headers in the casing that most clients use: some small servers require it."""


class Destination(Struct, frozen=True, eq=False, kw_only=True):
    """The other end of a connection. Equal destinations are one object, which makes a cheap pool key."""

    host: str
    port: int
    name: str
    """Name for error messages."""
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None
    proxy_tls: ssl.SSLContext | None = None
    """TLS context for a proxy that is itself reached over TLS."""
    answers: KnownAnswers = field(default_factory=KnownAnswers)
    """Known heads of its answers."""

    @property
    def is_tunneled(self) -> bool:
        """Whether the proxy only forwards bytes and does not read the request."""
        return self.proxy is not None and self.tls is not None


@lru_cache(maxsize=1024)
def parse_url(url: str) -> Url:
    """Parse the address of a call, cached because most calls repeat it. Raises `TransportError`."""
    return parse_http_url(url)


class PreparedCall(Struct, frozen=True, eq=False):
    """A call whose bytes are ready except for the body and its length."""

    destination: Destination
    head: bytes
    """Created by `request_head`."""
    body: bytes
    timeouts: Timeouts


def request_head(call: UpstreamCall, destination: Destination) -> bytes:
    """Return the request line and all headers except the content length. Raises `TransportError`."""
    url = parse_url(call.url)
    forwarded = destination.proxy is not None and not destination.is_tunneled
    target = str(url) if forwarded else url.target
    headers = {
        "host": url.authority,
        "accept": "*/*",
        "user-agent": USER_AGENT,
        **_proxy_credential(url),
        **call.headers,
    }
    headers["accept-encoding"] = "identity"
    if forwarded and destination.proxy is not None:  # without a tunnel, the proxy reads the request's own headers
        headers.update(destination.proxy.headers)
    if not _TOKEN.fullmatch(call.method):
        raise TransportError("connect", BAD_HEADER.format(host=destination.name))
    return f"{call.method} {target} HTTP/1.1\r\n".encode() + _header_lines(headers, destination)


def _proxy_credential(url: Url) -> Mapping[str, str]:
    return {} if url.user is None else {"authorization": basic_credential(url)}


def _header_lines(headers: Mapping[str, str], destination: Destination) -> bytes:
    lines = []
    for name, value in headers.items():
        if _TOKEN.fullmatch(name) is None or _CONTROL.search(value) is not None:
            raise TransportError("connect", BAD_HEADER.format(host=destination.name))
        if name not in _FRAMING:
            lines.append(f"{_HEADER_CASING.get(name, name)}: {value}\r\n")
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError:
        raise TransportError("connect", BAD_HEADER.format(host=destination.name)) from None
