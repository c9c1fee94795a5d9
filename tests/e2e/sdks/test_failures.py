"""An upstream that fails behind the gateway must look failed to the official SDKs, by the errors they are known for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.answers import Answer, Failure, Way
from tests.e2e.gateway import Behind, Gateways, serving
from tests.e2e.loopback import Asked, Loopback, Reply, stream, whole
from tests.e2e.recordings import END_MARKS, SOURCES, TURNS, frames, recording
from tests.e2e.test_faults import CLASSES, KINDS, MIDSTREAM, VENDORS
from tests.e2e.ways import STREAMING, WAYS
from toolglot.dialects import DIALECTS

CONFIG = """
default_upstream = "failing"

[upstreams.failing]
dialect = "{dialect}"
base_url = "{base_url}"
retries = {{ attempts = 1 }}
breaker = {{ failures = 1000000 }}
"""
NO_ANSWER = Reply(500, b"no failure is played")
EVENTS = stream(b"").headers
JSON = whole(b"").headers

WHOLE = [way for way in WAYS if not way.streams]
GATEWAY_KINDS = ("bad_request", "rate_limit", "server")

STREAM_ERRORS = {
    ("python", "openai_chat"): {"APIError"},
    ("python", "openai_responses"): {"response.failed", "RuntimeError"},
    ("python", "anthropic"): {"APIStatusError"},
    ("python", "gemini"): {"ServerError"},
    ("js", "openai_chat"): {"APIError"},
    ("js", "openai_responses"): {"ResponseFailed"},
    ("js", "anthropic"): {"APIError"},
    ("js", "gemini"): {"ApiError"},
}
"""What an SDK makes of an error inside a stream. OpenAI's helper for Responses in Python says only that it has no whole
response; the other ways show the event that tells why."""
STATUS_ERRORS = {"InternalServerError", "OverloadedError"}
"""What they raise instead when the error comes before anything was sent on, and so has a status of its own."""
SAYS_NO_REASON = "RuntimeError"
CONNECTION_ERRORS = {"APIConnectionError", "RemoteProtocolError", "OpenAIError", "AnthropicError", "TypeError"}
"""What they make of a connection that breaks inside of an answer."""


def pairs(ways: list[Way]) -> list[object]:
    return [pytest.param(way, source, id=f"{source}-{way.name}") for source in SOURCES for way in ways]


@pytest.fixture(scope="module")
def failing(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Behind]]:
    """Gateways that ask an upstream once and never give it up, so that each failure is told at once."""
    running: dict[str, Behind] = {}
    with ExitStack() as stack:
        for dialect in SOURCES:
            exchange = stack.enter_context(loopback.serving(NO_ANSWER))
            folder = tmp_path_factory.mktemp(dialect)
            (folder / "toolglot.toml").write_text(CONFIG.format(dialect=dialect, base_url=exchange.base_url))
            base_url = stack.enter_context(serving(folder, "--config", str(folder / "toolglot.toml")))
            running[dialect] = Behind(base_url, dialect, exchange)
        yield running


def failure_of(gateway: Behind, way: Way, reply: Reply) -> Failure:
    gateway.exchange.answer = lambda _: reply
    failure = way.ask(gateway.base_url)
    assert isinstance(failure, Failure), failure
    return failure


def stream_errors(way: Way) -> set[str]:
    return STREAM_ERRORS[way.name.partition("-")[0], way.dialect]


@pytest.mark.parametrize("kind", GATEWAY_KINDS)
@pytest.mark.parametrize(("way", "source"), pairs(WAYS))
def test_an_http_error_raises_the_class_of_its_kind(
    failing: dict[str, Behind], way: Way, source: str, kind: str
) -> None:
    status, body = KINDS[kind][VENDORS[source]]
    headers = {"content-type": "application/json", "retry-after": "7"}
    failure = failure_of(failing[source], way, Reply(status, body, headers))
    assert failure.status == status
    assert json.loads(body)["error"]["message"] in failure.message
    if way.dialect != "gemini":
        assert failure.name in CLASSES[kind]
        assert failure.retry_after == "7"
    elif way.name.startswith("python"):
        assert failure.name == ("ClientError" if status < 500 else "ServerError")
    else:
        assert failure.name == "ApiError"


def unfinished(dialect: str) -> bytes:
    """The first turn without its end."""
    sent = b""
    for frame in frames(recording(dialect, "parallel_calls", streams=True)):
        if END_MARKS[dialect] in frame:
            break
        sent += frame
    return sent


@pytest.mark.parametrize(("way", "source"), pairs(STREAMING))
def test_a_stream_that_ends_early_or_breaks_off_fails(failing: dict[str, Behind], way: Way, source: str) -> None:
    body = unfinished(source)
    for reply in (stream(body), stream(body[:-40]), Reply(200, body, EVENTS, breaks=True)):
        failure = failure_of(failing[source], way, reply)
        if DIALECTS[way.dialect].stream.broken == "cut":
            assert failure.name in CONNECTION_ERRORS
            continue
        assert failure.name in stream_errors(way)
        if failure.name != SAYS_NO_REASON:
            assert ("broke off" if reply.breaks else "ended the stream before") in failure.message


@pytest.mark.parametrize(("way", "source"), pairs(STREAMING))
def test_an_error_in_the_middle_of_a_stream_fails(failing: dict[str, Behind], way: Way, source: str) -> None:
    failure = failure_of(failing[source], way, stream(recording(source, "failing", streams=True)))
    assert failure.name in stream_errors(way) | STATUS_ERRORS
    if failure.name != SAYS_NO_REASON:
        assert ("had an error" if MIDSTREAM[source] == "server" else "verloaded") in failure.message


@pytest.mark.parametrize(("way", "source"), pairs(WHOLE))
def test_half_an_answer_fails(failing: dict[str, Behind], way: Way, source: str) -> None:
    half = recording(source, "parallel_calls", streams=False)[:-100]
    for reply in (whole(half), Reply(200, half, JSON, breaks=True)):
        failure = failure_of(failing[source], way, reply)
        assert failure.status == (503 if way.dialect == "gemini" else 502)
        assert failure.name in {"InternalServerError", "ServerError", "ApiError"}
        assert ("broke off" if reply.breaks else "unreadable") in failure.message


@pytest.mark.parametrize("source", SOURCES)
def test_what_passes_is_tried_again_and_the_sdk_sees_nothing_of_it(gateways: Gateways, source: str) -> None:
    gateway = gateways.to(source)
    status, body = KINDS["overloaded"][VENDORS[source]]
    replies = iter(
        [
            Reply(status, body, {"content-type": "application/json", "retry-after": "0"}),
            Reply(200, unfinished(source)[:5], EVENTS, breaks=True),
            stream(recording(source, "plain_text", streams=True)),
        ]
    )

    def answer(_: Asked) -> Reply:
        return next(replies)

    gateway.exchange.answer = answer
    way = next(way for way in STREAMING if way.dialect != source)
    said = way.ask(gateway.base_url)
    assert isinstance(said, Answer), said
    assert said.text == TURNS["plain_text"].text
    assert next(replies, None) is None
