"""A large body goes to an upstream that takes everything: a few pieces in each turn of the loop, and each once."""

from __future__ import annotations

import asyncio

from bench.socketless import KeepingTransport

from tests.upstream.http_client.receivers import Kept
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.http_client.connection import PIECES_PER_TURN, WRITE_PIECE, Connection
from toolglot.upstream.http_client.pool import ConnectionPool
from toolglot.upstream.transport import Timeouts

TURNS = 5
BODY = bytes(range(256)) * (TURNS * PIECES_PER_TURN * WRITE_PIECE // 256) + b"end"


def test_a_large_body_is_written_in_turns_and_a_pause_changes_nothing() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        connection = Connection(ConnectionPool(1, loop), HttpTransport(1, {}).destination("http://up.test/v1"), loop)
        connection.transport = transport = KeepingTransport()
        connection.send(b"POST / HTTP/1.1\r\n", BODY, Timeouts(), Kept(), loop.time())
        head, *first = transport.written
        assert len(first) == PIECES_PER_TURN
        connection.pause_writing()
        await asyncio.sleep(0)
        assert len(transport.written) == 1 + PIECES_PER_TURN
        for _ in range(3):  # several at once are one
            connection.resume_writing()
        for turn in range(2, TURNS + 1):
            await asyncio.sleep(0)
            assert len(transport.written) == 1 + turn * PIECES_PER_TURN
        await asyncio.sleep(0)
        assert head.endswith(b"Content-Length: %d\r\n\r\n" % len(BODY))
        assert b"".join(transport.written[1:]) == BODY

    asyncio.run(test())
