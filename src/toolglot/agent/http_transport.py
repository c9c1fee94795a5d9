"""MCP over Streamable HTTP: the SDK's transport, with limits on answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from toolglot.config.schema import McpServerConfig

BODY_LIMIT = 16 * 1024 * 1024
_CONNECT = 30.0


class _BodyTooLongError(httpx2.StreamError):
    """The SDK turns this into a failed call; other exceptions would end the whole connection."""


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for part in self._stream:
            length += len(part)
            if length > self._limit:
                raise _BodyTooLongError(f"the answer has more than {self._limit:,} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Forwards requests, and checks answers before the SDK sees them."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: int, told: Callable[[int, bool], None]) -> None:
        self._inner = inner
        self._limit = limit
        self._told = told

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        self._told(response.status_code, "mcp-session-id" in request.headers)
        # We request no compression, and the limit would be useless for data that is decompressed afterwards.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("the server compresses its answer without being asked to")
        # Streams may be endless; their events are limited one by one.
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedBody(response.stream, self._limit)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def proxy_for(url: str) -> str | None:
    """Return the proxy from the environment for this address (`HTTPS_PROXY`, `NO_PROXY` and so on)."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return None if proxy is None or proxy_bypass(parts.hostname or "") else proxy


def configured_headers(config: McpServerConfig) -> dict[str, str]:
    """Return the configured headers for each request, except the header that would bypass the limits."""
    kept = {name: value for name, value in config.headers.items() if name.lower() != "accept-encoding"}
    return {**kept, "accept-encoding": "identity"}


class HttpServerTransport:
    """The connection to one server. `why` describes its failures. Its end (`ended`) is always unknown. `lost` is called
    when the server has lost the session, so that a new one is needed.
    """

    def __init__(self, config: McpServerConfig, lost: Callable[[], None], *, body_limit: int = BODY_LIMIT) -> None:
        self.why: str | None = None
        self.ended = False
        self._config = config
        self._lost = lost
        self._limit = body_limit
        self._forgotten = False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """Yield the streams of messages from and to the server."""
        assert self._config.url is not None
        # The SDK follows redirects only within the server's own origin. `trust_env=False`: otherwise the client would
        # create its own transports for the environment's proxies, without our limits, and send passwords from ~/.netrc.
        client = httpx2.AsyncClient(
            headers=configured_headers(self._config),
            # Calls have their own time limit, and a stream of changes may be silent for days.
            timeout=httpx2.Timeout(_CONNECT, read=None),
            transport=_BoundedTransport(
                httpx2.AsyncHTTPTransport(proxy=proxy_for(self._config.url)), self._limit, self._on_status
            ),
            trust_env=False,
        )
        async with (
            client,
            streamable_http_client(self._config.url, http_client=client, max_sse_event_size=self._limit) as streams,
        ):
            yield streams

    def _on_status(self, status: int, in_session: bool) -> None:
        if self._forgotten:
            return
        if status < 400:
            self.why = None
        elif status == 404 and in_session:
            self._forgotten, self.why = True, "it no longer knows the session"
            self._lost()
        elif status != 405:  # a server without a stream for unsolicited messages
            self.why = f"it answered with HTTP status {status}"
