"""Writes that wait for the end of the loop's turn, and those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bench.socketless import KeepingTransport

from toolglot.upstream.http_client.write_batch import MAX_BATCH, SMALL_BATCH, UNBATCHED_WRITES, write_batch_for


class Written(KeepingTransport):
    """A transport whose writes are told in one list with those of others."""

    def __init__(self, told: list[bytes], *, closing: bool = False) -> None:
        super().__init__()
        self.told = told
        self.closing = closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.told.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing


class Broken(KeepingTransport):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError


Put = Callable[[bytes, bool], None]


def turns(work: Callable[[Put, list[bytes]], Awaitable[None]]) -> None:
    async def run() -> None:
        told: list[bytes] = []
        transport, loop = Written(told), asyncio.get_running_loop()
        await work(lambda data, busy: write_batch_for(loop).put(loop, transport, data, busy), told)

    asyncio.run(run())


def test_who_is_alone_writes_at_once() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        put(b"a", False)
        assert told == [b"a"]

    turns(work)


def test_where_much_is_going_on_all_is_written_at_the_end_of_the_turn_and_in_order() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        for data in (b"a", b"b", b"c"):
            put(data, True)
        put(b"d", False)  # not before what waits
        assert told == []
        await asyncio.sleep(0)
        assert told == [b"a", b"b", b"c", b"d"]

    turns(work)


def test_after_a_turn_with_little_in_it_the_next_ones_are_written_at_once_for_a_while() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        for _ in range(SMALL_BATCH - 1):
            put(b"few", True)
        await asyncio.sleep(0)
        told.clear()
        for _ in range(UNBATCHED_WRITES):
            put(b"now", True)
        assert told == [b"now"] * UNBATCHED_WRITES
        put(b"later", True)
        assert b"later" not in told

    turns(work)


def test_not_more_than_so_many_wait_for_the_end_of_a_long_turn() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        for _ in range(MAX_BATCH + 1):
            put(b"a", True)
        assert told == [b"a"] * MAX_BATCH
        await asyncio.sleep(0)
        assert told == [b"a"] * (MAX_BATCH + 1)
        put(b"b", True)  # that turn was worth it
        assert b"b" not in told

    turns(work)


def test_a_transport_that_fails_does_not_cost_the_others_their_words() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        write_batch_for(loop).put(loop, Broken(), b"a", True)
        put(b"b", True)
        await asyncio.sleep(0)
        assert told == [b"b"]

    turns(work)


def test_what_waits_is_written_once_by_whoever_flushes() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        put(b"a", True)
        write_batch_for(asyncio.get_running_loop()).flush()
        assert told == [b"a"]
        await asyncio.sleep(0)
        assert told == [b"a"]

    turns(work)


def test_nothing_is_written_to_a_transport_that_was_closed_meanwhile() -> None:
    async def work(put: Put, told: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        closed = Written(told)
        put(b"a", True)
        write_batch_for(loop).put(loop, closed, b"b", True)
        closed.closing = True
        await asyncio.sleep(0)
        assert told == [b"a"]

    turns(work)
