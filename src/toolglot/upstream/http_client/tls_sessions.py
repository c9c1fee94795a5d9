"""TLS session resumption: a new connection to a known host skips the certificate exchange.

Neither asyncio nor uvloop accepts a session, but both create their TLS objects with `SSLContext.wrap_bio`. A session is
used only for the name that its certificate was verified for, and with the context that verified it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from toolglot.upstream.proxy_env import trusted_context

MAX_SESSIONS = 256


class ResumingContext(ssl.SSLContext):
    """A client context that remembers the last session of each host."""

    sessions: dict[str, ssl.SSLSession]

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        if session is None and isinstance(server_hostname, str):
            session = self.sessions.get(server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def remember(self, transport: asyncio.BaseTransport) -> None:
        """Remember this connection's session. It can be resumed only after something was read."""
        secured = transport.get_extra_info("ssl_object")
        if not isinstance(secured, ssl.SSLObject):
            return
        host, session = secured.server_hostname, secured.session
        if session is not None and host is not None:
            if len(self.sessions) >= MAX_SESSIONS:
                self.sessions.clear()
            self.sessions[host] = session


def resuming_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Create a context with session resumption. Raises `TransportError` if a configured certificate cannot be read."""
    context = trusted_context(environment)
    # `ssl.create_default_context` knows the safe settings of each Python version, but creates no subclass.
    if type(context) is ssl.SSLContext:
        context.__class__ = ResumingContext
        assert isinstance(context, ResumingContext)
        context.sessions = {}
    return context
