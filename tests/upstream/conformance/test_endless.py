"""Parts of an answer that never end: each is given up, and what it takes in memory is bounded."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.upstream.bad_server import BadServer, expect, head, send, send_for_ever
from tests.upstream.calls import call, failure
from tests.upstream.conformance.clients import Client, count_idle
from tests.waiting import FAILSAFE

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = head(200, {"transfer-encoding": "chunked"})

ENDLESS = {
    "a status line": (b"HTTP/1.1 200 ", b"O" * 4096),
    "a header's name": (OK, b"x" * 4096),
    "a header's value": (OK + b"x: ", b"y" * 4096),
    "headers": (OK, b"x: y\r\n" * 100),
    "empty lines": (b"", b"\r\n" * 2048),
    "interim heads": (b"", head(100) * 100),
    "an extension of a chunk": (CHUNKED + b"1;", b"e" * 4096),
    "the size of a chunk": (CHUNKED, b"0" * 4096),
    "a trailer": (CHUNKED + b"1\r\na\r\n0\r\nx: ", b"y" * 4096),
    "trailers": (CHUNKED + b"1\r\na\r\n0\r\n", b"x: y\r\n" * 100),
    "a body": (head(200), b"x" * 4096),
    "chunks": (CHUNKED, b"1\r\nx\r\n" * 1000),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_what_never_ends_is_given_up(client: Client, part: str) -> None:
    first, again = ENDLESS[part]

    async def test() -> None:
        script = [expect(), send(first), send_for_ever(again)]
        async with BadServer(script) as server, client.transport() as opened:
            tracemalloc.start()
            try:
                error = await failure(opened, call(server.url, first_byte=FAILSAFE, idle=FAILSAFE), limit=64 * 1024)
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert error.failure in ("too_large", "reset")
            assert most < 8 * 1024 * 1024
            assert count_idle(opened) == 0

    client.run(test)
