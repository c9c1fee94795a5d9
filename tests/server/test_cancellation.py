"""A client that goes away, at any moment: the upstream's connection is closed at once, and nothing is left behind.

The number is that of `tests/server/fault_cases.py`.
"""

from __future__ import annotations

from time import monotonic

import pytest

from tests.server.client_errors import mid_call
from tests.server.gateway import CLIENTS, Running, at, gateway
from tests.upstream.bad_server import BadServer, Gate, Script, chunk, expect, gone, head, reply, send, stream, tell
from toolglot.config.schema import ModelConfig, Retries

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
AT_ONCE = 10.0
"""Seconds. It takes milliseconds; a busy machine may need more."""


def _leaves(running: Running, client: str, streams: bool, asked: Gate, left: Gate, after: bytes = b"") -> None:
    """Ask, go away once the upstream was asked (and the client has read this much), and all is over at once."""
    talk = running.begin(client, stream=streams)
    asked.wait_blocking()
    if after:
        talk.until(after)
    began = monotonic()
    talk.leave()
    left.wait_blocking()
    record = running.record()
    assert monotonic() - began < AT_ONCE
    assert record.cancelled
    assert running.service.in_flight == 0


@EVERY_CLIENT
@BOTH
def test_36_a_client_that_goes_before_the_first_byte_ends_the_upstreams_work(client: str, streams: bool) -> None:
    asked, left = Gate(), Gate()
    with (
        BadServer([expect(seen=asked), gone(left)]) as server,
        gateway(at("openai_chat", server.url, retries=Retries())) as running,
    ):
        _leaves(running, client, streams, asked, left)
        assert server.connections == 1  # nobody asks again for a client that is gone


@EVERY_CLIENT
def test_36_a_client_that_goes_while_the_head_is_all_there_is_ends_the_upstreams_work(client: str) -> None:
    asked, left = Gate(), Gate()
    script = [expect(), stream(complete=False), tell(asked), gone(left)]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        _leaves(running, client, True, asked, left)


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_36_a_client_that_goes_in_the_middle_of_a_stream_ends_the_upstreams_work(client: str, upstream: str) -> None:
    asked, left = Gate(), Gate()
    script = [expect(seen=asked), stream(mid_call(upstream), complete=False), gone(left)]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        _leaves(running, client, True, asked, left, after=b"Hel")


@EVERY_CLIENT
def test_36_a_client_that_goes_while_a_whole_answer_comes_in_ends_the_upstreams_work(client: str) -> None:
    asked, left = Gate(), Gate()
    half = head(200, {"content-type": "application/json", "content-length": "1000"}) + b'{"id":'
    with (
        BadServer([expect(), send(half), tell(asked), gone(left)]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        _leaves(running, client, False, asked, left)


@EVERY_CLIENT
@BOTH
def test_36_a_client_that_goes_while_a_retry_is_waited_for_is_not_asked_for_again(client: str, streams: bool) -> None:
    refused = Gate()
    busy = reply({"error": {"message": "busy", "type": "server_error"}}, 503, {"retry-after": "15"})
    with (
        BadServer([expect(), busy, gone(refused)]) as server,
        gateway(at("openai_chat", server.url, retries=Retries(attempts=3, first_wait=0))) as running,
    ):
        _leaves(running, client, streams, refused, refused)
        assert server.connections == 1


@EVERY_CLIENT
def test_36_a_client_that_goes_while_the_second_upstream_works_ends_that(client: str) -> None:
    asked, left = Gate(), Gate()
    dead: Script = [expect(), reply({"error": {"message": "no"}}, 500)]
    with (
        BadServer(dead) as first,
        BadServer([expect(seen=asked), gone(left)]) as second,
        gateway(
            {"first": at("openai_chat", first.url), "second": at("anthropic", second.url)},
            models={"m": ModelConfig(upstream="first", fallbacks=("second/m",))},
        ) as running,
    ):
        _leaves(running, client, True, asked, left)


def test_36_the_connection_of_a_client_that_went_is_not_used_for_the_next() -> None:
    asked, left = Gate(), Gate()
    begun = send(head(200, {"transfer-encoding": "chunked"}), chunk(b"data: "))
    script = [expect(), begun, tell(asked), gone(left)]
    with BadServer(script, [expect(), reply({"error": {"message": "second"}}, 400)]) as server:
        with gateway(at("openai_chat", server.url)) as running:
            _leaves(running, "openai_chat", True, asked, left)
            assert running.ask("openai_chat").json()["error"]["message"] == "second"
        assert server.connections == 2
