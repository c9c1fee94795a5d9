"""TLS sessions that are taken up again: a new connection to a host that is known need not prove who it is once more.

Neither asyncio nor uvloop has a way to give a session, but both make their TLS objects with `SSLContext.wrap_bio`. A
session is used for the very name that its certificate was checked for, and with the context that checked it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from toolglot.upstream.surroundings import certificates

MAX_SESSIONS = 256


class ResumingContext(ssl.SSLContext):
    """A client's context that remembers the last session of each host."""

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
        """Keep the session of this connection, on which something has been read: only then it can be taken up."""
        secured = transport.get_extra_info("ssl_object")
        if not isinstance(secured, ssl.SSLObject):
            return
        host, session = secured.server_hostname, secured.session
        if session is not None and host is not None:
            if len(self.sessions) >= MAX_SESSIONS:
                self.sessions.clear()
            self.sessions[host] = session


def resuming(environment: Mapping[str, str]) -> ssl.SSLContext:
    """What TLS trusts, with a memory. Raises `TransportError` when a certificate that was named cannot be read."""
    context = certificates(environment)
    # `ssl.create_default_context`, which knows what is safe in each version of Python, makes no other class.
    if type(context) is ssl.SSLContext:
        context.__class__ = ResumingContext
        assert isinstance(context, ResumingContext)
        context.sessions = {}
    return context
