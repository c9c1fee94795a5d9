"""Clients that end their side of the connection after the request, and still wait for the answer.

A half-close (`shutdown(SHUT_WR)`) is legal, and from the server's side it looks like a disconnect: both are a FIN. Only
a write tells them apart, because the kernel of a client that has closed its socket answers it with a reset. So a few
bytes without meaning are written, and the socket is checked for that reset:

- before the answer: an interim `100 Continue`, which every HTTP/1.1 client skips (RFC 9110, section 15.2);
- between two chunks of an answer: a zero. The size of a chunk may begin with zeros (RFC 9112, section 7.1).

An answer in other forms, or one for HTTP/1.0, has no room for such bytes: there the answer's own bytes find out.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ZERO = b"0"

CHECK_DELAYS = (0.001, 0.004, 0.02, 0.1, 0.4)
"""Seconds from a probe to each of the first checks, then one a second: a reset takes one round trip."""
CHECK_INTERVAL = 1.0
PROBE_CHECKS = frozenset({0, 6, 16, 46})
"""The checks before which a probe is written: at once, and after some 2, 12 and 42 seconds. A client may close its
socket for good at any time, which sends nothing. There are few: Go's client takes five interim responses and sixteen
digits of a size."""


def is_reset(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has answered with a reset: the kernel then reports an error without being asked for events."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))


class DisconnectProbe:
    """Finds out whether the client behind a half-closed connection is still there; aborts the connection if not.

    Args:
        next_probe: the bytes that can be written now; empty if there is no room for any.
        is_answering: whether the answer is still under way.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        next_probe: Callable[[], bytes],
        is_answering: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._next_probe = next_probe
        self._is_answering = is_answering
        self._checks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._check()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if not self._is_answering() or self._transport.is_closing():
            return
        if self._checks and is_reset(self._transport):
            self._transport.abort()
            return
        if self._checks in PROBE_CHECKS and (probe := self._next_probe()):
            self._transport.write(probe)
        delay = CHECK_DELAYS[self._checks] if self._checks < len(CHECK_DELAYS) else CHECK_INTERVAL
        self._checks += 1
        self._timer = self._loop.call_later(delay, self._check)
