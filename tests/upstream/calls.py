"""Calls of a scripted server through the real transport, and what is asked of every failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.upstream.bad_server import (
    FAILSAFE,
    BadServer,
)
from toolglot.upstream.http import HttpTransport
from toolglot.upstream.transport import Call, Timeouts, TransportError

SECRET = "sk-canary-0123456789"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(FAILSAFE):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def transport(**environment: str) -> AsyncIterator[HttpTransport]:
    opened = HttpTransport(max_connections=10, environment=environment)
    try:
        yield opened
    finally:
        await opened.close()


def call(url: str, body: bytes = b"{}", **timeouts: float) -> Call:
    return Call(
        url=f"{url}/v1/chat?key={SECRET}",
        headers={"authorization": f"Bearer {SECRET}", "content-type": "application/json"},
        body=body,
        timeouts=Timeouts(**timeouts),
    )


async def failure(opened: HttpTransport, wanted: Call, limit: int = 10_000) -> TransportError:
    """What goes wrong with this call, at its head or in its body."""
    with pytest.raises(TransportError) as caught:
        answer = await opened.send(wanted)
        try:
            await answer.read(limit)
        finally:
            answer.close()
    assert SECRET not in repr(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def fails(*script: Any, limit: int = 10_000, **timeouts: float) -> str:
    """How a call of a server with this script fails."""
    seen: list[str] = []

    async def test() -> None:
        async with BadServer(list(script)) as server, transport() as opened:
            seen.append((await failure(opened, call(server.url, b"{}", **timeouts), limit)).failure)

    run(test)
    return seen[0]
