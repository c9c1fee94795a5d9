"""The HTTP client on each event loop, and what the suite must know of its inside.

Every test of this folder runs on asyncio's own loop and on uvloop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import uvloop

from tests.upstream.bad_server import BadServer
from tests.upstream.calls import call, failure
from tests.waiting import FAILSAFE
from toolglot.upstream.http_client import HttpReply, HttpTransport
from toolglot.upstream.transport import Reply, Transport


class Client(NamedTuple):
    name: str
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None

    def run(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(FAILSAFE):
                await test()

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(bounded())

    @asynccontextmanager
    async def transport(self, **environment: str) -> AsyncIterator[Transport]:
        opened = HttpTransport(10, environment)
        try:
            yield opened
        finally:
            await opened.close()

    def fails(self, *script: Any, limit: int = 10_000, **timeouts: float) -> str:
        """How a call of a server with this script fails."""
        seen: list[str] = []

        async def test() -> None:
            async with BadServer(list(script)) as server, self.transport() as opened:
                seen.append((await failure(opened, call(server.url, b"{}", **timeouts), limit)).failure)

        self.run(test)
        return seen[0]


CLIENTS = (Client("asyncio", None), Client("uvloop", uvloop.new_event_loop))


def chunks_of(reply: Reply) -> AsyncGenerator[bytes, None]:
    """The iteration over a body, for a test that leaves it early."""
    chunks = reply.chunks()
    assert isinstance(chunks, AsyncGenerator)
    return chunks


def count_idle(transport: Transport) -> int:
    """How many connections are open and not in use."""
    assert isinstance(transport, HttpTransport)
    pools = transport._pool._idle.values() if transport._pool is not None else ()
    return sum(not connection.transport.is_closing() for pool in pools for connection in pool)


def count_waiting(transport: Transport) -> int:
    """How many calls wait for a place in the pool."""
    assert isinstance(transport, HttpTransport)
    return len(transport._pool._waiting) if transport._pool is not None else 0


def is_broken(reply: Reply) -> bool:
    """Has the break of an answer come, read or not?"""
    assert isinstance(reply, HttpReply)
    return reply._broken is not None


def count_held(reply: Reply) -> int:
    """Bytes of an answer that have come and were not read."""
    assert isinstance(reply, HttpReply)
    return reply._size
