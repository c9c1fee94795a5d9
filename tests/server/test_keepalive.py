"""A silent upstream: clients are kept waiting in their own dialect's way, for as long as somebody is at work.

The number is that of `tests/server/fault_cases.py`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.lint.streams import SOUND
from tests.server.client_errors import break_told, error_told, fault_told, good_end, mid_call
from tests.server.gateway import CLIENTS, LIMITS, at, gateway
from tests.upstream.bad_server import BadServer, Gate, chunk, drip, expect, gone, pause, reply, send, stream
from toolglot.config.schema import ModelConfig, Retries
from toolglot.dialects import DIALECTS
from toolglot.ir import Request
from toolglot.lint import lint
from toolglot.receipt import Receipt
from toolglot.upstream.transport import Timeouts

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
SHORT = replace(LIMITS, keepalive=0.02)
SLOWER = replace(LIMITS, keepalive=0.1)

KEEPALIVES = {
    **{name: DIALECTS[name].stream_encoder(Request(model="m"), Receipt()).keepalive() for name in CLIENTS},
    "openai_chat": b": keepalive\n\n",
    "openai_responses": b": keepalive\n\n",
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "gemini": b"\n\n",
    "ollama": b'{"model":"m","created_at":"1970-01-01T00:00:00Z","message":{"role":"assistant","content":""},'
    b'"done":false}\n',
}
"""What the official SDKs and the known agents read over."""


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", CLIENTS)
def test_32_silence_before_the_first_event_is_filled_and_the_answer_follows(client: str, upstream: str) -> None:
    seen = Gate()
    with (
        BadServer([expect(), pause(seen), stream(SOUND[upstream])]) as server,
        gateway(at(upstream, server.url), limits=SHORT) as running,
    ):
        talk = running.begin(client, stream=True)
        assert talk.until(KEEPALIVES[client] * 3).startswith(KEEPALIVES[client] * 3)
        assert talk.head.status == 200
        seen.open()
        answer = talk.rest()
        assert b"Hel" in answer.body
        good_end(client, answer)


@EVERY_CLIENT
def test_32_silence_in_the_middle_of_a_call_is_filled_between_the_events(client: str) -> None:
    seen = Gate()
    began = mid_call("openai_chat")
    rest = SOUND["openai_chat"].removeprefix(began)
    script = [expect(), stream(began, complete=False), pause(seen), send(chunk(rest), b"0\r\n\r\n")]
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=SHORT) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        talk.until(KEEPALIVES[client] * 2)
        seen.open()
        answer = talk.rest()
        assert (answer.complete, lint(client, [answer.body])) == (True, [])
        assert running.record().error is None


@EVERY_CLIENT
def test_32_an_upstream_that_stays_silent_inside_its_answer_ends_in_an_error(client: str) -> None:
    left = Gate()
    script = [expect(), stream(mid_call("openai_chat"), complete=False), gone(left)]
    upstream = at("openai_chat", "", timeouts=Timeouts(idle=0.3))
    with BadServer(script) as server, gateway(replace(upstream, base_url=server.url), limits=SHORT) as running:
        answer = running.ask(client, stream=True)
        break_told(client, answer)
        assert KEEPALIVES[client] in answer.body
        if DIALECTS[client].stream.broken == "error":
            assert not answer.body.endswith(KEEPALIVES[client] * 2)  # none follows the error
        left.wait_blocking()
        record = running.record()
        assert record.error == "timeout"
        assert "silent for 0.3 seconds" in (record.message or "")


@EVERY_CLIENT
@pytest.mark.parametrize("begun", [b"", mid_call("openai_chat")], ids=["before its answer", "inside its answer"])
def test_32_an_upstream_that_drips_bytes_of_a_comment_is_given_up(client: str, begun: bytes) -> None:
    script = [expect(), stream(*([begun] if begun else []), complete=False), drip(b":")]
    upstream = at("openai_chat", "", timeouts=Timeouts(progress=0.3))
    with BadServer(script) as server, gateway(replace(upstream, base_url=server.url)) as running:
        answer = running.ask(client, stream=True)
        if begun:
            break_told(client, answer)
        else:
            assert "nothing but keep-alives for 0.3 seconds" in error_told(client, answer).message
        record = running.record()
        assert record.error == "timeout"
        assert "nothing but keep-alives for 0.3 seconds" in (record.message or "")


@EVERY_CLIENT
def test_32_an_upstream_that_never_begins_ends_in_an_error_inside_the_stream_that_was_promised(client: str) -> None:
    upstream = at("openai_chat", "", timeouts=Timeouts(first_byte=0.2), retries=Retries())
    left = Gate()
    with (
        BadServer([expect(), gone(left)]) as server,
        gateway(replace(upstream, base_url=server.url), limits=SHORT) as running,
    ):
        answer = running.ask(client, stream=True)
        break_told(client, answer)
        assert answer.body.startswith(KEEPALIVES[client])
        record = running.record()
        assert (server.connections, record.error) == (1, "timeout")
        assert "did not answer within 0.2 seconds" in (record.message or "")
        assert record.cut == (DIALECTS[client].stream.broken == "cut")
        assert b'"created_at":0' not in answer.body


WAITS = {
    "seconds": ({"retry-after-ms": "1898", "retry-after": "2"}, "Slow down.", "Slow down. Please try again in 1.898s."),
    "a date": (
        {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"},
        "Slow down.",
        "Slow down. Please try again after Wed, 21 Oct 2026 07:28:00 GMT.",
    ),
    "words": ({"retry-after": "9"}, "Slow down. Please wait 9 seconds.", "Slow down. Please wait 9 seconds."),
    "nothing": ({}, "Slow down.", "Slow down."),
}


@EVERY_CLIENT
@pytest.mark.parametrize("wait", WAITS)
def test_32_a_wait_that_comes_after_keepalives_is_named_in_the_error(client: str, wait: str) -> None:
    """The head of the reply is written already, and with it every header. Codex reads the words."""
    headers, message, expected = WAITS[wait]
    seen = Gate()
    script = [expect(), pause(seen), reply({"error": {"message": message, "code": "rate"}}, 429, headers)]
    once = Retries(attempts=1)
    with BadServer(script) as server, gateway(at("openai_chat", server.url, retries=once), limits=SHORT) as running:
        talk = running.begin(client, stream=True)
        talk.until(KEEPALIVES[client])
        seen.open()
        told = fault_told(client, talk.rest())
        assert told.message.removeprefix("The upstream 'up' says: ") == expected
        if client == "openai_responses":
            assert told.code == "rate_limit_exceeded"


@EVERY_CLIENT
def test_32_an_error_of_the_upstream_after_a_keepalive_is_told_in_the_stream(client: str) -> None:
    seen = Gate()
    script = [expect(), pause(seen), reply({"error": {"message": "no such key"}}, 401)]
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=SHORT) as running:
        talk = running.begin(client, stream=True)
        talk.until(KEEPALIVES[client])
        seen.open()
        assert "no such key" in fault_told(client, talk.rest()).message
        assert not running.record().cut


@EVERY_CLIENT
def test_32_an_upstream_that_fails_after_a_keepalive_is_replaced_because_that_was_no_answer(client: str) -> None:
    seen = Gate()
    with (
        BadServer([expect(), pause(seen), reply({"error": {"message": "boom"}}, 500)]) as first,
        BadServer([expect(), stream(SOUND["openai_chat"])]) as second,
        gateway(
            {"first": at("openai_chat", first.url), "second": at("openai_chat", second.url)},
            models={"m": ModelConfig(upstream="first", fallbacks=("second/m",))},
            limits=SHORT,
        ) as running,
    ):
        talk = running.begin(client, stream=True)
        talk.until(KEEPALIVES[client])
        seen.open()
        good_end(client, talk.rest())
        assert (first.connections, second.connections) == (1, 1)


@EVERY_CLIENT
def test_32_nobody_is_kept_waiting_in_words_while_a_retry_is_waited_for(client: str) -> None:
    busy = [expect(), reply({"error": {"message": "busy"}}, 503, {"retry-after": "0.3"})]
    with (
        BadServer(busy, busy, [expect(), stream(SOUND["openai_chat"])]) as server,
        gateway(at("openai_chat", server.url, retries=Retries(first_wait=0)), limits=SLOWER) as running,
    ):
        answer = running.ask(client, stream=True)
        assert server.connections == 3
        good_end(client, answer)


@EVERY_CLIENT
def test_32_a_whole_answer_is_waited_for_without_a_word(client: str) -> None:
    left = Gate()
    upstream = at("openai_chat", "", timeouts=Timeouts(first_byte=0.2))
    with (
        BadServer([expect(), gone(left)]) as server,
        gateway(replace(upstream, base_url=server.url), limits=SHORT) as running,
    ):
        answer = running.ask(client)
        assert (answer.status, error_told(client, answer).code) == (504, "upstream_timeout")
