"""What is done about an upstream that fails before its first byte: another try, another upstream, another request.

The numbers are those of `tests/server/fault_cases.py`.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import break_told, error_told, good_end, mid_call, type_of
from tests.server.gateway import CLIENTS, at, gateway
from tests.upstream.bad_server import BadServer, Gate, Script, expect, pause, reply, reset, stream
from tests.waiting import FAILSAFE
from toolglot.config.schema import BreakerConfig, ModelConfig, Retries

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
AT_ONCE = Retries(attempts=3, first_wait=0)

GOOD: Script = [expect(), stream(SOUND["openai_chat"])]


_TYPES = {400: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error"}


def refusal(status: int, message: str = "no", **headers: str) -> Script:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": _TYPES.get(status, "server_error"), "param": None, "code": None}
    return [expect(), reply({"error": error}, status, named)]


# 27: once more


@EVERY_CLIENT
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_27_a_passing_failure_is_tried_again(client: str, status: int) -> None:
    with (
        BadServer(refusal(status), refusal(status), GOOD) as server,
        gateway(at("openai_chat", server.url, retries=AT_ONCE)) as running,
    ):
        good_end(client, running.ask(client, stream=True))
        assert (server.connections, running.record().attempts) == (3, 3)
        bodies = {request.body for request in server.requests}
        assert len(bodies) == 1  # the same request each time


@EVERY_CLIENT
def test_27_a_connection_that_breaks_before_the_answer_is_tried_again(client: str) -> None:
    with (
        BadServer([expect(), reset()], GOOD) as server,
        gateway(at("openai_chat", server.url, retries=AT_ONCE)) as running,
    ):
        good_end(client, running.ask(client, stream=True))
        assert server.connections == 2


@EVERY_CLIENT
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 501])
def test_27_a_lasting_refusal_is_not_tried_again(client: str, status: int) -> None:
    with (
        BadServer(refusal(status)) as server,
        gateway(at("openai_chat", server.url, retries=AT_ONCE)) as running,
    ):
        answer = running.ask(client)
        assert error_told(client, answer).message.endswith("no")
        assert server.connections == 1


def test_27_nothing_is_tried_again_once_a_byte_has_reached_the_client() -> None:
    seen = Gate()
    script = [expect(), stream(mid_call("openai_chat"), complete=False), pause(seen), reset()]
    with (
        BadServer(script, GOOD) as first,
        BadServer(GOOD) as second,
        gateway(
            {"first": at("openai_chat", first.url, retries=AT_ONCE), "second": at("openai_chat", second.url)},
            models={"m": ModelConfig(upstream="first", fallbacks=("second/m",))},
        ) as running,
    ):
        talk = running.begin("anthropic", stream=True)
        talk.until(b"Hello")
        seen.open()
        break_told("anthropic", talk.rest())
        assert (first.connections, second.connections) == (1, 0)


# 28: told to wait


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize("status", [429, 529])
def test_28_a_wait_that_is_too_long_is_passed_on_with_its_header(client: str, streams: bool, status: int) -> None:
    with (
        BadServer(refusal(status, "slow down", retry_after="77")) as server,
        gateway(at("openai_chat", server.url, retries=AT_ONCE)) as running,
    ):
        answer = running.ask(client, stream=streams)
        told = error_told(client, answer)
        kind = "rate_limit" if status == 429 else "overloaded"
        assert (told.type, told.message) == (type_of(client, kind), "slow down")
        assert answer.headers["retry-after"] == "77"
        assert answer.status == (429 if status == 429 else {"anthropic": 529, "gemini": 503}.get(client, answer.status))
        assert server.connections == 1


def test_28_a_short_wait_is_waited_and_no_less() -> None:
    with (
        BadServer(refusal(429, retry_after="0.4"), GOOD) as server,
        gateway(at("openai_chat", server.url, retries=AT_ONCE)) as running,
    ):
        began = monotonic()
        good_end("openai_chat", running.ask("openai_chat", stream=True))
        assert monotonic() - began >= 0.4
        assert server.connections == 2


@pytest.mark.parametrize("client", ["openai_chat", "openai_responses", "anthropic"])
def test_a_local_server_that_is_not_running_is_reported_with_its_cause_and_not_retried_by_clients(client: str) -> None:
    breaker = BreakerConfig(failures=1, rest=60.0)
    with gateway(at("gemini", "http://127.0.0.1:9", retries=AT_ONCE, breaker=breaker)) as running:
        answers = [running.ask(client, stream=False) for _ in range(2)]
    assert [answer.status for answer in answers] == [502, 503]
    for answer in answers:
        assert answer.headers["x-should-retry"] == "false"
        assert "127.0.0.1:9 cannot be reached: Connection refused" in answer.json()["error"]["message"]


def test_28_a_breaker_leaves_a_failing_upstream_alone_and_lets_it_come_back() -> None:
    breaker = BreakerConfig(failures=2, rest=2.0)
    with (
        BadServer(refusal(500), refusal(500), GOOD) as server,
        gateway(at("openai_chat", server.url, breaker=breaker)) as running,
    ):
        began = monotonic()
        assert [running.ask("openai_chat", stream=True).status for _ in range(2)] == [500, 500]
        resting = running.ask("anthropic", stream=True)
        told = error_told("anthropic", resting)
        assert (resting.status, told.code) == (503, "upstream_resting")
        assert float(resting.headers["retry-after"]) > 0
        assert server.connections == 2  # it was not asked
        while running.ask("openai_chat", stream=True).status != 200:  # each is answered at once, without a call
            assert monotonic() - began < FAILSAFE
        assert monotonic() - began >= 2.0
        assert server.connections == 3
        good_end("anthropic", running.ask("anthropic", stream=True))


def test_28_a_resting_upstream_is_passed_over_for_its_fallback() -> None:
    breaker = BreakerConfig(failures=1, rest=60)
    with BadServer(refusal(500)) as first, BadServer(GOOD) as second:
        named = {"first": at("openai_chat", first.url, breaker=breaker), "second": at("openai_chat", second.url)}
        models = {"m": ModelConfig(upstream="first", fallbacks=("second/m",))}
        with gateway(named, models=models) as running:
            for _ in range(3):
                good_end("openai_chat", running.ask("openai_chat", stream=True))
            assert (first.connections, second.connections) == (1, 3)


# Fallbacks


FAILURES: dict[str, Script] = {
    "500": refusal(500),
    "429": refusal(429, retry_after="60"),
    "401": refusal(401),
    "404": refusal(404),
    "reset": [expect(), reset()],
    "empty stream": [expect(), stream()],
    "a page": [expect(), reply(b"<html></html>", headers={"content-type": "text/html"})],
    "an error first": [expect(), stream(b'data: {"error":{"message":"boom","type":"server_error"}}\n\n')],
}


@EVERY_CLIENT
@pytest.mark.parametrize("failure", FAILURES)
def test_27_another_upstream_of_another_dialect_answers_before_the_first_byte(client: str, failure: str) -> None:
    with (
        BadServer(FAILURES[failure]) as first,
        BadServer([expect(), stream(SOUND["anthropic"])]) as second,
        gateway(
            {"first": at("openai_chat", first.url), "second": at("anthropic", second.url)},
            models={"m": ModelConfig(upstream="first", model="one", fallbacks=("second/two",))},
        ) as running,
    ):
        answer = running.ask(client, stream=True)
        good_end(client, answer)
        record = running.record()
        assert (record.upstream, record.upstream_dialect, record.fallbacks) == ("second", "anthropic", 1)
        assert [request.json()["model"] for request in (*first.requests, *second.requests)] == ["one", "two"]
        assert second.requests[0].target == "/v1/messages"
        assert b'"two"' not in answer.body  # the answer names the model that was asked for


@EVERY_CLIENT
@BOTH
def test_27_a_request_that_is_wrong_everywhere_goes_nowhere_else(client: str, streams: bool) -> None:
    with (
        BadServer(refusal(400, "messages: nonsense")) as first,
        BadServer(GOOD) as second,
        gateway(
            {"first": at("openai_chat", first.url), "second": at("openai_chat", second.url)},
            models={"m": ModelConfig(upstream="first", fallbacks=("second/m",))},
        ) as running,
    ):
        answer = running.ask(client, stream=streams)
        told = error_told(client, answer)
        assert (answer.status, told.type) == (400, type_of(client, "bad_request"))
        assert told.message == "messages: nonsense"
        assert second.connections == 0


# Known refusals, mended once


MENDS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    # what the upstream says, the client, what it asked for, the field that is gone from the second request
    "unsupported parameter": (
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "openai_chat",
        {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5},
        "temperature",
    ),
    "max_tokens": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "openai_chat",
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100},
        "max_tokens",
    ),
    "forced tool choice": (
        "tool_choice 'required' is not supported by this model",
        "openai_chat",
        {
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "tool_choice": "required",
        },
        "tool_choice",
    ),
}


@pytest.mark.parametrize("case", MENDS)
def test_28_a_known_refusal_is_mended_once_and_stands_in_the_receipt(case: str) -> None:
    message, client, body, field = MENDS[case]
    with (
        BadServer(refusal(400, message), GOOD) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        answer = running.ask(client, stream=True, body=body)
        good_end(client, answer)
        first, second = (request.json() for request in server.requests)
        assert first[field] == body[field]
        assert second.get(field) != body[field]
        record = running.record()
        assert (record.attempts, record.mended) == (2, 1)
        receipt = running.receipt(answer)
        assert {"where": "request", "what": "sent a second time"}.items() <= receipt["lines"][-1].items()
        assert answer.headers["x-toolglot-receipt"] != "losses=0; notes=0"


def test_28_a_second_refusal_goes_to_the_client() -> None:
    message, client, body, _ = MENDS["unsupported parameter"]
    with (
        BadServer(refusal(400, message), refusal(400, "Unsupported parameter: 'messages'")) as server,
        gateway(at("openai_chat", server.url, retries=AT_ONCE)) as running,
    ):
        answer = running.ask(client, stream=True, body=body)
        assert (answer.status, error_told(client, answer).message) == (400, "Unsupported parameter: 'messages'")
        assert server.connections == 2


def test_28_a_server_that_refuses_one_field_after_the_other_is_asked_until_it_answers() -> None:
    refused = ("temperature", "top_p", "seed")
    body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5, "top_p": 0.5, "seed": 1}
    scripts = [refusal(400, f"Unsupported parameter: '{name}'") for name in refused]
    with (
        BadServer(*scripts, GOOD) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        good_end("openai_chat", running.ask("openai_chat", stream=True, body=body))
        left = [sorted(body.keys() & request.json().keys()) for request in server.requests]
        assert left[-1] == ["messages"]
        assert (len(left), running.record().mended) == (4, 3)


TEMPLATE_REFUSAL = [expect(), reply({"error": "system message must be at the beginning"}, 500)]
OLLAMA_ANSWER = [expect(), stream(SOUND["ollama"])]
WITH_LATER_SYSTEM = {
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Be brief."}],
}


def test_28_a_template_that_refuses_with_500_is_remedied_and_remembered() -> None:
    with (
        BadServer(TEMPLATE_REFUSAL, OLLAMA_ANSWER, OLLAMA_ANSWER) as server,
        gateway(at("ollama", server.url, retries=AT_ONCE)) as running,
    ):
        for attempts in (2, 1):
            answer = running.ask("anthropic", stream=True, body=WITH_LATER_SYSTEM)
            good_end("anthropic", answer)
            assert running.record().attempts == attempts
        roles = [[message["role"] for message in request.json()["messages"]] for request in server.requests]
        assert roles == [["user", "system"], ["user"], ["user"]]
        told = running.receipt(answer)["lines"]
        assert told[-1]["what"] == "changed before it was sent"


def test_28_a_template_that_still_refuses_is_neither_retried_nor_unwell() -> None:
    with (
        BadServer(TEMPLATE_REFUSAL) as server,
        gateway(at("ollama", server.url, retries=AT_ONCE, breaker=BreakerConfig(failures=1, rest=60))) as running,
    ):
        for calls in (2, 4):
            answer = running.ask("anthropic", stream=True, body=WITH_LATER_SYSTEM)
            assert (answer.status, type_of("anthropic", "bad_request")) == (400, error_told("anthropic", answer).type)
            assert server.connections == calls


def test_28_a_remedy_with_a_loss_is_not_applied_in_advance() -> None:
    message, client, body, field = MENDS["unsupported parameter"]
    with (
        BadServer(refusal(400, message), GOOD, GOOD) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        for _ in range(2):
            good_end(client, running.ask(client, stream=True, body=body))
        assert [field in request.json() for request in server.requests] == [True, False, True]


def test_28_thinking_that_is_no_longer_valid_is_left_out_the_second_time() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    body = {
        "max_tokens": 2000,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [thinking, {"type": "text", "text": "Hello"}]},
            {"role": "user", "content": "More"},
        ],
    }
    message = "messages.1.content.0: Invalid `signature` in `thinking` block"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    with (
        BadServer([expect(), reply(error, 400)], [expect(), stream(SOUND["anthropic"])]) as server,
        gateway(at("anthropic", server.url)) as running,
    ):
        answer = running.ask("anthropic", stream=True, body=body)
        good_end("anthropic", answer)
        first, second = server.requests
        assert b"c2ln" in first.body
        assert b"c2ln" not in second.body
        assert running.record().mended == 1
