"""Upstreams in which something goes wrong, and what clients of every dialect are told of it.

The numbers are those of `tests/server/fault_cases.py`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exchanges import JSON_NAMES, PAIRS
from tests.lint.streams import SOUND
from tests.server.client_errors import error_told, fault_told, gateway_status, good_end, type_of
from tests.server.gateway import CLIENTS, at, gateway
from tests.upstream.bad_server import (
    BadServer,
    Gate,
    Script,
    expect,
    gone,
    head,
    make_certificate,
    never,
    reply,
    send,
    stream,
)
from toolglot.config.schema import Retries
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.events import Delta, Event, Fault, Open, Start
from toolglot.ir import Text
from toolglot.receipt import Receipt
from toolglot.upstream.transport import Timeouts

STREAM_HEAD = head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close"})
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
EVERY_PAIR = pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[0] in CLIENTS])


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens, and where nobody else can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


# 27: no connection


@EVERY_CLIENT
@BOTH
def test_27_a_refused_connection_is_told_as_an_upstream_that_is_not_there(
    client: str, streams: bool, nobody: str
) -> None:
    with gateway(at("openai_chat", nobody, retries=Retries(attempts=2, first_wait=0))) as running:
        answer = running.ask(client, stream=streams)
        told = error_told(client, answer)
        assert answer.status == gateway_status(client)
        assert (told.type, told.code) == (type_of(client, "gateway"), "upstream_unreachable")
        assert "Connection refused" in told.message
        assert running.record().attempts == 2


@EVERY_CLIENT
def test_27_a_name_that_does_not_resolve_is_told_by_its_name(client: str) -> None:
    with gateway(at("openai_chat", "http://no-such-host.invalid/v1")) as running:
        answer = running.ask(client)
        told = error_told(client, answer)
        assert (answer.status, told.type) == (gateway_status(client), type_of(client, "gateway"))
        assert told.code == "upstream_unreachable"
        assert "no-such-host.invalid" in told.message


@EVERY_CLIENT
@BOTH
def test_27_an_upstream_that_never_answers_is_a_timeout(client: str, streams: bool) -> None:
    gave_up = Gate()
    script = [expect(), gone(gave_up)]
    with (
        BadServer(script) as server,
        gateway(at("openai_chat", server.url, timeouts=Timeouts(first_byte=0.1), retries=Retries())) as running,
    ):
        answer = running.ask(client, stream=streams)
        told = error_told(client, answer)
        assert (answer.status, told.type) == (504, type_of(client, "timeout"))
        assert told.code == "upstream_timeout"
        gave_up.wait_blocking()
        assert len(server.requests) == 1  # it may still be at work: nothing is sent twice


# 26: TLS


def test_26_a_certificate_that_nobody_vouches_for_is_an_error_and_nothing_is_sent(tmp_path: Path) -> None:
    _, context = make_certificate(tmp_path)
    with BadServer([never()], tls=context) as server, gateway(at("openai_chat", server.url)) as running:
        told = error_told("openai_chat", running.ask("openai_chat"))
        assert told.code == "upstream_tls"
        assert server.requests == []


def test_26_tls_is_never_left_out_towards_a_server_that_has_none() -> None:
    with BadServer([send(head(400))]) as server:
        with gateway(at("openai_chat", server.url.replace("http:", "https:"))) as running:
            assert error_told("openai_chat", running.ask("openai_chat")).code == "upstream_tls"
        assert server.requests == []


# 24: redirects


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_24_a_redirect_is_not_followed(client: str, streams: bool, status: int) -> None:
    with (
        BadServer([expect(), reply({})]) as elsewhere,
        BadServer([expect(), reply(b"", status, {"location": elsewhere.url})]) as server,
        gateway(at("openai_chat", server.url, key="sk-upstream", retries=Retries())) as running,
    ):
        answer = running.ask(client, stream=streams)
        assert answer.status == gateway_status(client)
        assert error_told(client, answer).code == "upstream_redirect"
        assert "location" not in answer.headers
        assert (len(server.requests), elsewhere.requests) == (1, [])


# 29: what is not an answer


NOT_ANSWERS: dict[str, tuple[Script, str]] = {
    "html": (
        [expect(), reply(b"<html><h1>It works!</h1></html>", headers={"content-type": "text/html"})],
        "upstream_unreadable",
    ),
    "nothing": ([expect(), reply(b"")], ""),
    "nothing, chunked": ([expect(), stream()], ""),
    "half a document": ([expect(), reply(b'{"id": "1", "choices": [{')], ""),
    "text": ([expect(), reply(b"Service busy", headers={"content-type": "text/plain"})], ""),
    "a list": ([expect(), reply([1, 2])], ""),
    "another answer": ([expect(), reply({"ok": True})], ""),
}


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize("case", NOT_ANSWERS)
def test_29_a_200_without_an_answer_is_an_error_of_the_upstream(client: str, streams: bool, case: str) -> None:
    script, code = NOT_ANSWERS[case]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=streams)
        told = error_told(client, answer)
        assert answer.status == gateway_status(client)
        assert told.type == type_of(client, "gateway")
        assert told.code in ((code,) if code else ("upstream_unreadable", "upstream_truncated"))


def test_29_a_page_where_an_answer_should_be_is_shown_with_advice() -> None:
    page = b"<!DOCTYPE html>\n<html><head><title>Welcome to nginx!</title></head></html>"
    script = [expect(), reply(page, headers={"content-type": "text/html; charset=utf-8"})]
    for streams in (False, True):
        with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
            told = error_told("openai_chat", running.ask("openai_chat", stream=streams))
            assert "text/html" in told.message
            assert "base URL" in told.message
            assert "Welcome to nginx!" in told.message


@EVERY_CLIENT
@pytest.mark.parametrize("status", [403, 404, 502])
def test_29_an_error_with_a_page_names_its_upstream_in_place_of_the_page(client: str, status: int) -> None:
    page = b"<!DOCTYPE html>\n<html><head><title>nginx</title></head></html>"
    script = [expect(), reply(page, status, headers={"content-type": "text/html"})]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        told = error_told(client, running.ask(client))
    said = f"answered with status {status} and a web page ('nginx'); is its base URL right?"
    assert told.message.startswith("The upstream 'up' ")
    assert said in told.message
    assert "<" not in told.message


BOOM = ApiError(kind="server", message="boom")
ERRORS_IN_200 = {
    **{name: json.loads(DIALECTS[name].encode_error(BOOM).body) for name in JSON_NAMES},
    "openai_chat": {"error": {"message": "boom", "type": "server_error", "param": None, "code": "x"}},
    "openai_responses": {"error": {"message": "boom", "type": "server_error", "param": None, "code": "x"}},
    "anthropic": {"type": "error", "error": {"type": "api_error", "message": "boom"}},
    "gemini": {"error": {"code": 500, "message": "boom", "status": "INTERNAL"}},
    "warp": {"error": "boom"},
}


@EVERY_PAIR
@BOTH
def test_29_an_error_inside_a_200_is_that_error(client: str, upstream: str, streams: bool) -> None:
    script = [expect(), reply(ERRORS_IN_200[upstream])]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        answer = running.ask(client, stream=streams)
        told = error_told(client, answer)
        assert (answer.status, told.type, told.message) == (500, type_of(client, "server"), "boom")


@EVERY_CLIENT
def test_29_a_whole_answer_where_a_stream_was_asked_for_becomes_a_stream(client: str) -> None:
    message = {"role": "assistant", "content": "Hello"}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    with BadServer([expect(), reply(body)]) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=True)
        assert b"Hello" in answer.body
        good_end(client, answer)


@EVERY_CLIENT
def test_29_a_stream_is_read_whatever_its_content_type(client: str) -> None:
    script = [expect(), stream(SOUND["openai_chat"], headers={"content-type": "application/octet-stream"})]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        good_end(client, running.ask(client, stream=True))


@pytest.mark.parametrize("begun", [False, True], ids=["at the start", "after text"])
@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "anthropic", "gemini"])
@EVERY_CLIENT
def test_a_refused_key_inside_a_stream_names_the_upstream(client: str, upstream: str, begun: bool) -> None:
    """The client has a key, too: that of the gateway. Errors in streams of Ollama and Warp are only text."""
    encoder = DIALECTS[upstream].stream_encoder(None, Receipt())
    text: list[Event] = [Open(0, Text(text="")), Delta(0, "Hel")] if begun else []
    own = {upstream: {"code": "invalid_api_key"}}
    error = ApiError(kind="authentication", message="no such key", status=401, code="invalid_api_key", native=own)
    events: list[Event] = [Start(id="r1", model="m"), *text, Fault(error)]
    written = [encoder.feed(event) for event in events]
    with (
        BadServer([expect(), stream(*filter(None, written))]) as server,
        gateway({"mine": at(upstream, server.url)}) as running,
    ):
        answer = running.ask(client, stream=True)
        told = fault_told(client, answer) if answer.status == 200 else error_told(client, answer)
    assert told.message == "The upstream 'mine' says: no such key"
