"""What an open stream lets go of, and has again when it is needed."""

from __future__ import annotations

import asyncio

from bench.socketless import Socketless, without_sockets

from tests.server.socketless import STREAM_END, STREAM_HEAD, WHOLE, asked, chunk, framed
from toolglot.gateway.callback_driver import CallbackDriver
from toolglot.gateway.client_request import ClientRequest

BEGIN = STREAM_HEAD + framed([chunk(role="assistant", content=""), chunk(content="a word")])
LAST = chunk(content="word").replace(b'"finish_reason":null', b'"finish_reason":"stop"')


def test_a_stream_that_has_begun_holds_neither_its_request_nor_a_parser() -> None:
    async def work(stage: Socketless) -> None:
        client, _ = stage.client()
        upstream, _ = await stage.upstream()
        client.data_received(asked(stream=True))
        driver = client.cycle
        assert isinstance(driver, CallbackDriver)
        assert isinstance(driver._client, ClientRequest)
        upstream.data_received(BEGIN)
        translation = driver._context.translation
        assert translation is not None
        assert translation.body == b""
        assert client.headers == []
        assert client.parser is None

    without_sockets(work)


def test_a_connection_whose_parser_was_let_go_reads_the_next_request() -> None:
    async def work(stage: Socketless) -> bytes:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()
        client.data_received(asked(stream=True))
        upstream.data_received(BEGIN + framed([LAST, b"data: [DONE]\n\n"]) + STREAM_END)
        await asyncio.sleep(0)
        assert b"message_stop" in seen.taken()
        other_head = asked().replace(b"x-api-key: k", b"x-api-key: another")
        client.data_received(other_head[:40])
        client.data_received(other_head[40:])
        upstream.data_received(WHOLE)
        await asyncio.sleep(0)
        return seen.taken()

    assert b"It is empty." in without_sockets(work)
