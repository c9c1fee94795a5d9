"""Answers with a head that is known cross as those do that are read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bench.socketless import Socketless, without_sockets

from tests.server.socketless import ANSWER, WHOLE, asked, chunk
from toolglot.gateway.callback_driver import CallbackDriver

LAST = chunk(content="word").replace(b'"finish_reason":null', b'"finish_reason":"stop"')
EVENTS = chunk(role="assistant", content="") + LAST + b"data: [DONE]\n\n"
OWN_ID = re.compile(rb"req_[0-9a-f]{24}")


def whole(body: bytes, **fields: str) -> bytes:
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 200 OK\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def answers(*told: tuple[bytes, bytes]) -> list[bytes]:
    """What a client sees for each of these requests, to which an upstream answers so."""

    async def work(stage: Socketless) -> list[bytes]:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()
        written = []
        for request, answer in told:
            client.data_received(request)
            assert isinstance(client.cycle, CallbackDriver)
            upstream.data_received(answer)
            written.append(OWN_ID.sub(b"ID", seen.taken()))
        assert stage.service.in_flight == 0
        return written

    return without_sockets(work)


def test_the_next_answers_are_those_that_the_first_one_is() -> None:
    first, *others = answers(*[(asked(), WHOLE)] * 3)
    assert b"It is empty." in first
    assert others == [first, first]


def test_another_length_and_another_value_make_another_answer() -> None:
    longer = ANSWER.replace(b"It is empty.", b"It is not empty at all.")
    told = [
        (asked(), whole(ANSWER, content_type="application/json", x_id="1")),
        (asked(), whole(longer, content_type="application/json", x_id="1")),
        (asked(), whole(longer, content_type="application/json", x_id="22")),
    ]
    first, second, third = answers(*told)
    assert b"It is empty." in first
    assert b"It is not empty at all." in second
    assert second == third


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_stream_that_comes_whole_is_the_stream_that_comes_in_pieces(pieces: int) -> None:
    kind: dict[str, Any] = {"content_type": "text/event-stream"}
    told = [(asked(), whole(ANSWER, **kind))] * pieces
    *_, stream = answers(*told, (asked(stream=True), whole(EVENTS, **kind)))
    (read,) = answers((asked(stream=True), whole(EVENTS, **kind)))
    assert b"message_stop" in stream
    assert stream == read


def test_what_stands_behind_an_answer_ends_its_connection() -> None:
    async def work(stage: Socketless) -> bool:
        client, seen = stage.client()
        upstream, _ = await stage.upstream()
        for behind in (b"", b"", b"HTTP/1.1 200 OK\r\n\r\n"):
            client.data_received(asked())
            upstream.data_received(WHOLE + behind)
            assert b"It is empty." in seen.taken()
        pool = upstream._pool
        return pool.acquire_idle(upstream.destination, pool.loop.time()) is None

    assert without_sockets(work)


def test_the_limits_of_a_rate_are_told_from_a_known_head_too() -> None:
    def limited(left: int) -> bytes:
        return whole(ANSWER, x_ratelimit_remaining_tokens=str(left))

    written = answers(*[(asked(), limited(left)) for left in (9, 8, 8, 7)])
    assert [re.findall(rb"anthropic-ratelimit-tokens-remaining: (\d)", each) for each in written] == [
        [b"9"],
        [b"8"],
        [b"8"],
        [b"7"],
    ]
