"""Clients that close their sending side after the request and still wait for the answer.

A half-close (`shutdown(SHUT_WR)`) is legal, and from the server's side it looks like a disconnect: both are a FIN. Only
a write distinguishes them: the kernel of a client that has closed its socket answers it with a reset. So the server
writes a few bytes without meaning, and checks the socket for a reset:

- before the answer: an interim `100 Continue`, which every HTTP/1.1 client skips (RFC 9110, section 15.2);
- between two chunks of an answer: a zero. The size of a chunk may begin with zeros (RFC 9112, section 7.1).

Other answers, and those for HTTP/1.0, have no room for such bytes. There the answer's own bytes provoke the reset.
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
socket for good at any time, which sends nothing. The number is small because Go's client accepts only five interim
responses and sixteen digits of a size."""


def is_reset(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer has sent a reset. The kernel reports this error even if no events are requested."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))


class DisconnectProbe:
    """Checks whether the client of a half-closed connection is still connected; aborts the connection if not.

    Args:
        next_probe: bytes to write now; empty if the answer has no room for any.
        is_answering: whether the answer is still in progress.
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
