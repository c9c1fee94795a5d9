"""All the gateway's own connections are in use: that is told as its own doing, and no upstream is blamed for it."""

from __future__ import annotations

from tests.lint.streams import SOUND
from tests.server.client_errors import error_told
from tests.server.gateway import CLIENTS, at, gateway
from tests.server.test_fallbacks import GOOD
from tests.upstream.bad_server import BadServer, Gate, expect, pause, stream
from toolglot.config.schema import BreakerConfig, Limits, ModelConfig, Retries
from toolglot.upstream.transport import Timeouts


def test_a_full_pool_is_a_503_of_our_own_and_no_upstream_rests_for_it() -> None:
    seen, free = Gate(), Gate()
    with (
        BadServer([expect(seen=seen), pause(free), stream(SOUND["openai_chat"])]) as slow,
        BadServer(GOOD) as good,
        gateway(
            {
                "slow": at("openai_chat", slow.url),
                "good": at(
                    "openai_chat",
                    good.url,
                    timeouts=Timeouts(connect=0.05),
                    retries=Retries(attempts=5),
                    breaker=BreakerConfig(failures=1),
                ),
            },
            models={"m": ModelConfig(upstream="good", fallbacks=("slow/m",))},
            limits=Limits(upstream_connections=1),
        ) as running,
    ):
        holding = running.begin("openai_chat", stream=True, model="slow/m")
        seen.wait_blocking()
        for client in CLIENTS:
            answer = running.ask(client)
            assert answer.status == (529 if client == "anthropic" else 503)
            assert error_told(client, answer).message == "toolglot has all 1 connections to upstreams in use"
            if client != "gemini":  # whose clients look into the body for it
                assert answer.headers["retry-after"] == "1"
            record = running.record()
            assert record.calls == {"good": 1}, "neither again nor elsewhere"
        free.open()
        assert holding.rest().status == 200
        assert running.ask("openai_chat", stream=True).status == 200
