"""The ways over the network, and what the suite must know of the inside of each.

Every test of this folder is run for each of them. Where one may differ, the test's table says so and why. The suite is
run for another way alone where `TOOLGLOT_TEST_WAY` names one, as `module:name`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

from tests.upstream.bad_server import BadServer
from tests.upstream.calls import call, failure
from tests.waiting import FAILSAFE
from toolglot.upstream.http import HttpReply, HttpTransport
from toolglot.upstream.lean import LeanReply, LeanTransport
from toolglot.upstream.transport import Reply, Transport

NewLoop = Callable[[], asyncio.AbstractEventLoop] | None


class Make(Protocol):
    def __call__(self, max_connections: int, environment: Mapping[str, str]) -> Transport: ...


class Way(NamedTuple):
    name: str
    make: Make
    new_loop: NewLoop
    idle: Callable[[Transport], int]
    """How many connections are open and not in use."""
    waiting: Callable[[Transport], int]
    """How many calls wait for a place in the pool."""
    broken: Callable[[Reply], bool]
    """Whether the break of an answer has come, read or not."""
    held: Callable[[Reply], int]
    """Bytes of an answer that have come and were not read."""
    is_exact: bool = True
    """It must do all of it; one that is not may differ where a test says so."""

    def run(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(FAILSAFE):
                await test()

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(bounded())

    @asynccontextmanager
    async def transport(self, **environment: str) -> AsyncIterator[Transport]:
        opened = self.make(10, environment)
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


def chunks_of(reply: Reply) -> AsyncGenerator[bytes, None]:
    """The iteration over a body, for who wants to leave it early."""
    chunks = reply.chunks()
    assert isinstance(chunks, AsyncGenerator)
    return chunks


def _uvloop() -> NewLoop:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _connector(transport: Transport) -> Any:
    assert isinstance(transport, HttpTransport)
    return transport._session.connector if transport._session is not None else None


def _idle_of_aiohttp(transport: Transport) -> int:
    pools = _connector(transport)._conns.values()
    return sum(protocol.is_connected() for pool in pools for protocol, _ in pool)


def _content(reply: Reply) -> Any:
    assert isinstance(reply, HttpReply)
    return reply._response.content


def _idle_of_lean(transport: Transport) -> int:
    assert isinstance(transport, LeanTransport)
    pools = transport._pool._idle.values() if transport._pool is not None else ()
    return sum(not connection.transport.is_closing() for pool in pools for connection in pool)


def _waiting_of_lean(transport: Transport) -> int:
    assert isinstance(transport, LeanTransport)
    return len(transport._pool._waiting) if transport._pool is not None else 0


def _lean(reply: Reply) -> LeanReply:
    assert isinstance(reply, LeanReply)
    return reply


def _way_of_lean(name: str, new_loop: NewLoop) -> Way:
    return Way(
        name=name,
        make=LeanTransport,
        new_loop=new_loop,
        idle=_idle_of_lean,
        waiting=_waiting_of_lean,
        broken=lambda reply: _lean(reply)._broken is not None,
        held=lambda reply: _lean(reply)._size,
    )


AIOHTTP = Way(
    name="aiohttp",
    make=HttpTransport,
    new_loop=None,
    idle=_idle_of_aiohttp,
    waiting=lambda transport: sum(map(len, _connector(transport)._waiters.values())),
    broken=lambda reply: _content(reply).exception() is not None,
    held=lambda reply: int(_content(reply)._size),
    is_exact=False,
)
LEAN = (_way_of_lean("lean", None), _way_of_lean("lean-uvloop", _uvloop()))
WAYS = (AIOHTTP, *LEAN)


def chosen() -> Sequence[Way]:
    """Those that the suite is run for."""
    module, _, name = os.environ.get("TOOLGLOT_TEST_WAY", "").partition(":")
    if not module:
        return WAYS
    named = getattr(importlib.import_module(module), name)
    assert isinstance(named, Way)
    return (named,)
