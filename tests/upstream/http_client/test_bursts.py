"""An upstream that always has more to say: the other sockets come in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.upstream.bad_server import LAST_CHUNK, BadServer, chunk, expect, head, never
from tests.upstream.conformance.clients import Client
from tests.upstream.http_client.receivers import Kept, connected, on_both_loops
from toolglot.upstream.http_client import HttpTransport, InFlightRequest
from toolglot.upstream.http_client.connection import MAX_READ_BURST

CHUNKED = head(200, {"transfer-encoding": "chunked"})
MUCH, LITTLE = chunk(b"x" * MAX_READ_BURST), chunk(b"x" * (MAX_READ_BURST - 100))


class Noted:
    """A transport that notes who starts and stops the reading of it."""

    def __init__(self, transport: Any, notes: list[str]) -> None:
        self._transport = transport
        self._notes = notes

    def pause_reading(self) -> None:
        self._notes.append("pause")
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._notes.append("resume")
        self._transport.resume_reading()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


Play = Callable[[InFlightRequest, list[str]], Awaitable[None]]


def played(client: Client, play: Play) -> Kept:
    """What is told of an answer whose reads are played."""
    found: list[Kept] = []

    async def test() -> None:
        opened, kept, notes = HttpTransport(10, {}), Kept(), list[str]()
        found.append(kept)
        async with BadServer([expect(), never()]) as server:
            sending = await connected(opened, server.url, kept)
            sending.connection.transport = Noted(sending.connection.transport, notes)  # type: ignore[assignment]
            sending.connection.data_received(CHUNKED)
            await play(sending, notes)
            await opened.close()

    client.run(test)
    return found[0]


async def turn_of_the_loop() -> None:
    for _ in range(2):  # uvloop may run what was added last in the turn after this one
        await asyncio.sleep(0)


@on_both_loops
def test_after_a_large_read_the_loop_looks_at_others_first(client: Client) -> None:
    async def play(sending: InFlightRequest, notes: list[str]) -> None:
        sending.connection.data_received(LITTLE)
        assert notes == []
        for _ in range(3):
            sending.connection.data_received(MUCH)
            assert notes == ["pause"]
            await turn_of_the_loop()
            assert notes == ["pause", "resume"]
            notes.clear()
        sending.connection.data_received(MUCH + LAST_CHUNK)
        assert notes == []

    assert played(client, play).kinds == ["head", *["body"] * 5, "end"]


@on_both_loops
def test_who_wants_no_more_meanwhile_gets_no_more(client: Client) -> None:
    async def play(sending: InFlightRequest, notes: list[str]) -> None:
        sending.connection.data_received(MUCH)
        sending.pause()
        await turn_of_the_loop()
        assert notes == ["pause"]
        sending.resume()
        assert notes == ["pause", "resume"]
        sending.connection.data_received(MUCH)
        sending.pause()
        sending.resume()
        await turn_of_the_loop()
        assert notes == ["pause", "resume"] * 2
        sending.connection.data_received(MUCH)
        sending.abort()
        await turn_of_the_loop()
        assert notes == [*["pause", "resume"] * 2, "pause"]

    assert played(client, play).kinds == ["head", *["body"] * 3]
