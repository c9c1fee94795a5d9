"""Calls of a scripted server, and what is asked of every failure."""

from __future__ import annotations

import pytest

from toolglot.upstream.transport import Timeouts, Transport, TransportError, UpstreamCall

SECRET = "sk-canary-0123456789"


def call(url: str, body: bytes = b"{}", **timeouts: float) -> UpstreamCall:
    return UpstreamCall(
        url=f"{url}/v1/chat?key={SECRET}",
        headers={"authorization": f"Bearer {SECRET}", "content-type": "application/json"},
        body=body,
        timeouts=Timeouts(**timeouts),
    )


async def failure(opened: Transport, wanted: UpstreamCall, limit: int = 10_000) -> TransportError:
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


async def pass_time(opened: Transport, silent: str, seconds: float) -> None:
    """Until a call of a server that says nothing has waited so long."""
    assert (await failure(opened, call(silent, first_byte=seconds))).failure == "timeout"
