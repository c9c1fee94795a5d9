"""Where a request goes, worked out once for an upstream, and the head of a request as bytes."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, field

from toolglot.upstream.http_client.answers import Answers
from toolglot.upstream.http_client.rules import BAD_HEADER, USER_AGENT, url_of
from toolglot.upstream.surroundings import Proxy, basic
from toolglot.upstream.transport import Call, Timeouts, TransportError
from toolglot.upstream.url import Url

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_FRAMING = frozenset({"content-length", "transfer-encoding"})
"""What says where a request ends is written with the body and by nobody else."""

_SPELT = {"host": "Host", "accept": "Accept", "user-agent": "User-Agent"}
"""Our own headers as most clients write them: there are small servers that know no other way."""


class Destination(Struct, frozen=True, eq=False, kw_only=True):
    """The other end of a connection. Those that are the same are one object, which makes it a cheap key of a pool."""

    host: str
    port: int
    name: str
    """For errors."""
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None
    proxy_tls: ssl.SSLContext | None = None
    """For a proxy that is spoken to in TLS itself."""
    answers: Answers = field(default_factory=Answers)
    """What is known of how it answers."""

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy only carries bytes and does not read the request."""
        return self.proxy is not None and self.tls is not None


@lru_cache(maxsize=1024)
def parsed(url: str) -> Url:
    """The address of a call, which is mostly that of the call before. Raises `TransportError`."""
    return url_of(url)


class PreparedCall(Struct, frozen=True, eq=False):
    """A call of which all but the body and its length is written already."""

    destination: Destination
    head: bytes
    """As `request_head` makes one."""
    body: bytes
    timeouts: Timeouts


def request_head(call: Call, destination: Destination) -> bytes:
    """The request line and all headers of this call but the length of its body. Raises `TransportError`."""
    url = parsed(call.url)
    forwarded = destination.proxy is not None and not destination.tunnelled
    target = str(url) if forwarded else url.target
    headers = {"host": url.authority, "accept": "*/*", "user-agent": USER_AGENT, **_credential(url), **call.headers}
    headers["accept-encoding"] = "identity"
    if forwarded and destination.proxy is not None:  # without a tunnel the proxy reads the request's own headers
        headers.update(destination.proxy.headers)
    if not _TOKEN.fullmatch(call.method):
        raise TransportError("connect", BAD_HEADER.format(host=destination.name))
    return f"{call.method} {target} HTTP/1.1\r\n".encode() + _lines(headers, destination)


def _credential(url: Url) -> Mapping[str, str]:
    return {} if url.user is None else {"authorization": basic(url)}


def _lines(headers: Mapping[str, str], destination: Destination) -> bytes:
    lines = []
    for name, value in headers.items():
        if _TOKEN.fullmatch(name) is None or _CONTROL.search(value) is not None:
            raise TransportError("connect", BAD_HEADER.format(host=destination.name))
        if name not in _FRAMING:
            lines.append(f"{_SPELT.get(name, name)}: {value}\r\n")
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError:
        raise TransportError("connect", BAD_HEADER.format(host=destination.name)) from None
