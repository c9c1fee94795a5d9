"""pyreqwest as the conformance suite takes it.

Its inside cannot be seen, so what the suite asks of it is answered by the kernel, about the sockets of this process.
And as it works in a thread of its own, it is given a moment for what it may be about to do.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.upstream.conformance.ways import Way

from bench.transports.pyreqwest_transport import PyreqwestReply, PyreqwestTransport
from toolglot.upstream.transport import Call, Reply, Transport

MOMENT = 0.02
ESTABLISHED = 1
"""The state of a connection that neither side has closed, in the kernel's numbers."""


class Watched(PyreqwestTransport):
    """It remembers where it has called."""

    ports: frozenset[int] = frozenset()

    async def send(self, call: Call) -> Reply:
        if call.url.startswith(("http://127.", "https://127.")):
            self.ports |= {urlsplit(call.url).port or 0}
        return await super().send(call)


def _states(ports: frozenset[int]) -> Iterator[int]:
    """Of the connections of this process to these ports."""
    for path in Path("/proc/self/fd").iterdir():
        try:
            if not str(path.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(path.name))) as connection:
                address = connection.getpeername()
                if isinstance(address, tuple) and address[1] in ports:
                    yield connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO)
        except OSError:
            continue  # closed meanwhile, or not connected


def _idle(transport: Transport) -> int:
    assert isinstance(transport, Watched)
    time.sleep(MOMENT)
    return len(list(_states(transport.ports))) - len(transport._under_way)


def _waiting(transport: Transport) -> int:
    assert isinstance(transport, Watched)
    return sum(not waiter.done() for waiter in transport._places._waiters or ())


def _broken(reply: Reply) -> bool:
    assert isinstance(reply, PyreqwestReply)
    assert isinstance(reply._transport, Watched)
    if ESTABLISHED in _states(reply._transport.ports):
        return False
    time.sleep(MOMENT)
    return True


def _held(reply: Reply) -> int:
    """Nobody can tell; that the upstream comes to a stop is what the test shows all the same."""
    return 0


PYREQWEST = Way(
    name="pyreqwest",
    make=Watched,
    new_loop=None,
    idle=_idle,
    waiting=_waiting,
    broken=_broken,
    held=_held,
)
