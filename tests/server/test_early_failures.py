"""Upstreams that begin a stream with a failure: what clients are told of it, and how long is waited before the next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import error_told, frames, good_end, type_of
from tests.server.gateway import CLIENTS, at, gateway
from tests.upstream.bad_server import BadServer, Script, expect, reply, stream
from toolglot.config.schema import Retries
from toolglot.gateway import flow
from toolglot.ir import replace
from toolglot.lint import lint
from toolglot.upstream.retry import retry_delay

WORDS = "Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 1.898s."


def failed(code: str, message: str, *, begun: bool) -> bytes:
    """What the Responses API sends: the response begins and fails at once, or fails as the first thing it does."""
    error = {"code": code, "message": message}
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}}
    ] * begun
    events.append({"type": "response.failed", "response": {**response, "status": "failed", "error": error}})
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps({**event, "sequence_number": number}).encode())
        for number, event in enumerate(events)
    )


def script(code: str, message: str = "No.", *, begun: bool = True) -> Script:
    return [expect(), stream(failed(code, message, begun=begun))]


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "at once"])
@pytest.mark.parametrize(
    "code", ["rate_limit_exceeded", "insufficient_quota", "server_is_overloaded", "cyber_policy", "server_error"]
)
def test_an_early_failure_reaches_a_responses_client_in_its_stream_with_its_code(code: str, begun: bool) -> None:
    with (
        BadServer(script(code, begun=begun)) as server,
        gateway(at("openai_responses", server.url)) as running,
    ):
        answer = running.ask("openai_responses", stream=True)
        assert (answer.status, answer.complete) == (200, True)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert lint("openai_responses", [answer.body]) == []
        last = frames(answer.body)[-1]
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        error = last["response"]["error"]
        assert (error["code"], error["message"].removeprefix("The upstream 'up' says: ")) == (code, "No.")
        assert running.record().error is not None


@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "openai_responses"])
def test_an_early_failure_is_an_error_with_a_status_for_other_clients(client: str) -> None:
    with (
        BadServer(script("rate_limit_exceeded", WORDS)) as server,
        gateway(at("openai_responses", server.url)) as running,
    ):
        answer = running.ask(client, stream=True)
        told = error_told(client, answer)
        assert (answer.status, told.message) == (429, WORDS)
        assert answer.headers["retry-after"] == "2"  # which it says in words alone


CREATED = failed("server_error", "No.", begun=True).partition(b"event: response.failed")[0]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], "upstream_truncated"),
        ([CREATED], "upstream_truncated"),
        ([b"data: {oops}\n\n"], "upstream_unreadable"),
        ([CREATED, b"data: {oops}\n\n"], "upstream_unreadable"),
    ],
    ids=["empty", "only begun", "unreadable", "begun, then unreadable"],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_that_says_nothing_is_an_error_with_a_status_for_every_client(
    client: str, body: list[bytes], code: str
) -> None:
    """The upstream tells no failure there: clients of its own dialect, too, know best what to do with a status."""
    upstream = at("openai_responses", "", retries=Retries(attempts=1))
    with BadServer([expect(), stream(*body)]) as server, gateway(replace(upstream, base_url=server.url)) as running:
        answer = running.ask(client, stream=True)
        assert answer.status == (503 if client == "gemini" else 502)
        if client in ("openai_chat", "openai_responses"):
            assert answer.json()["error"]["code"] == code


def test_a_failure_in_a_foreign_stream_is_an_error_with_a_status_for_a_responses_client() -> None:
    event = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"Out of memory"}}\n\n'
    with BadServer([expect(), stream(event)]) as server, gateway(at("anthropic", server.url)) as running:
        answer = running.ask("openai_responses", stream=True)
        assert (answer.status, error_told("openai_responses", answer).type) == (
            500,
            type_of("openai_responses", "server"),
        )


REFUSALS: dict[str, tuple[str, Script]] = {
    "in a stream": ("openai_responses", script("rate_limit_exceeded", WORDS)),
    "by OpenAI": ("openai_chat", [expect(), reply({"error": {"message": WORDS, "type": "tokens"}}, 429)]),
    "by Gemini": (
        "gemini",
        [
            expect(),
            reply(
                {
                    "error": {
                        "code": 429,
                        "message": "Quota exceeded.",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.898s"}],
                    }
                },
                429,
            ),
        ],
    ),
}


@pytest.mark.parametrize(("upstream", "refusal"), REFUSALS.values(), ids=REFUSALS.keys())
def test_the_wait_that_an_upstream_names_is_waited(
    monkeypatch: pytest.MonkeyPatch, upstream: str, refusal: Script
) -> None:
    waits: list[float] = []

    def note_wait(*args: Any) -> float | None:
        wait = retry_delay(*args)
        if wait is None:
            return None
        waits.append(wait)
        return 0.0

    monkeypatch.setattr(flow, "retry_delay", note_wait)
    with (
        BadServer(refusal, [expect(), stream(SOUND[upstream])]) as server,
        gateway(at(upstream, server.url, retries=Retries(attempts=2, first_wait=0))) as running,
    ):
        good_end("anthropic", running.ask("anthropic", stream=True))
    assert waits == [pytest.approx(1.898)]
