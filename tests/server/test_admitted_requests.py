"""A request that was admitted gets its answer, whatever happens meanwhile, and its upstream is asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from bench.socketless import Socketless, without_sockets
from msgspec.structs import replace

from tests.server.gateway import Running, at, gateway
from tests.server.socketless import ANSWER, asked
from tests.server.test_callback_requests import STRANGE, answer, body
from tests.upstream.bad_server import BadServer, Gate, Step, expect, head, pause, reply, send
from toolglot.config.schema import BreakerConfig
from toolglot.gateway.gateway import Gateway
from toolglot.server.error_replies import DRAINING

ODD = send(head(200, {"content-type": "application/json", "content-length": str(len(STRANGE))}) + STRANGE)
"""An answer with an unusual member."""
BUSY = reply({"error": {"message": "Busy."}}, 500)


def drains(running: Running) -> None:
    running.service.is_accepting = False


def fills(running: Running) -> None:
    config = running.service.gateway.config
    running.service.gateway.config = replace(config, limits=replace(config.limits, concurrent_requests=0))


def loads_again(running: Running) -> None:
    """The gateway of a new configuration is another one, and its upstreams are others."""
    now = running.service.gateway
    upstreams = {name: replace(upstream) for name, upstream in now.upstreams.items()}
    running.service.gateway = Gateway(now.config, upstreams, now.router, now)


def fails_elsewhere(running: Running) -> None:
    """Others have found the upstream to be unwell: its breaker is open."""
    breaker = running.service.gateway.breaker(running.service.gateway.upstreams["up"])
    for _ in range(3):
        ticket = breaker.enter(1e9)
        if ticket is not None:
            breaker._opened = 1e9


@pytest.mark.parametrize("happens", [drains, fills, loads_again, fails_elsewhere])
@pytest.mark.parametrize(("says", "status"), [(ODD, 200), (BUSY, 500)], ids=["an odd answer", "an error"])
def test_what_was_let_in_gets_its_answer_and_nobody_is_asked_twice(
    happens: Callable[[Running], None], says: Step, status: int
) -> None:
    seen, go = Gate(), Gate()
    with (
        BadServer([expect(), answer()], [expect(seen=seen), pause(go), says]) as server,
        gateway(at("openai_chat", server.url, breaker=BreakerConfig(failures=1, rest=60))) as running,
    ):
        assert running.ask("anthropic", body=body()).status == 200
        talk = running.begin("anthropic", body=body())
        seen.wait_blocking()
        happens(running)
        go.open()
        assert talk.rest().status == status
        assert [running.record().attempts for _ in range(2)] == [1, 1]
        assert running.service.in_flight == 0
    assert len(server.requests) == 2


def test_the_end_of_the_time_to_drain_is_told() -> None:
    """529, which Anthropic's clients are told, is a status that HTTP has no words for."""

    async def work(stage: Socketless) -> tuple[bytes, int]:
        await stage.upstream()
        protocol, transport = stage.client()
        protocol.data_received(asked())
        stage.service.sweep.stop(DRAINING)
        return b"".join(transport.written), stage.service.in_flight

    written, in_flight = without_sockets(work)
    assert written.startswith(b"HTTP/1.1 529 \r\n")
    assert b"shutting down" in written
    assert in_flight == 0


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 500 Oops\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
    ],
    ids=["an error", "a page"],
)
def test_what_comes_for_a_client_that_has_just_left_is_nobodys(says: bytes) -> None:
    async def work(stage: Socketless) -> int:
        upstream, _ = await stage.upstream()
        protocol, _ = stage.client()
        protocol.data_received(asked())
        protocol.connection_lost(None)
        upstream.data_received(says)
        await asyncio.sleep(0)  # a turn of the loop, in which is cleared up behind the client
        return stage.service.in_flight

    assert without_sockets(work) == 0


def test_an_answer_has_one_request_id_and_it_is_ours() -> None:
    named = send(
        head(200, {"content-type": "application/json", "content-length": str(len(ANSWER)), "x-request-id": "theirs"})
        + ANSWER
    )
    with BadServer([expect(), named]) as server, gateway(at("openai_chat", server.url)) as running:
        for _ in range(2):
            talk = running.begin("openai_chat", body={"messages": [{"role": "user", "content": "Hi"}]})
            told = talk.head.headers.get_all("x-request-id")
            talk.rest()
            assert told == [running.record().id]


def test_what_of_a_request_was_seen_before_is_noted_once() -> None:
    with (
        BadServer([expect(), answer()], [expect(), ODD]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        running.ask("anthropic", body=body())
        first = {"role": "user", "content": "Another conversation."}
        assert running.ask("anthropic", body=body(messages=[first])).status == 200
        assert [running.record().prefix_reuse for _ in range(2)] == [(), ()]
