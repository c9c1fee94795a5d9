"""What toolglot writes as an answer, from every dialect to every dialect, parsed by the official SDKs."""

from __future__ import annotations

import pytest

from toolglot.translate import ExchangeCore

from .answers import Answer, Call, Failure, Way
from .loopback import Loopback, stream, whole
from .recordings import SOURCES, STOPS, STREAMED_ONLY, TEXT, TURNS, frames, recording, through
from .ways import STREAMING, WAYS

# The SDK's accumulator keeps the last piece of an extension field instead of joining the pieces.
LAST_THOUGHT_ONLY = "js-chat_stream"

RAISES_UNLESS_COMPLETED = {
    ("python-chat_stream", "LengthFinishReasonError"),
    ("python-chat_stream", "ContentFilterFinishReasonError"),
    ("python-responses_stream", "RuntimeError"),
}
"""Helpers that raise, by their own choice, when an answer was cut by a limit or a filter."""

CASES = [
    pytest.param(way, source, turn, id=f"{turn}-{source}-{way.name}")
    for turn in TURNS
    for source in SOURCES
    for way in WAYS
    if way.streams or turn not in STREAMED_ONLY
]
PAIRS = [pytest.param(way, source, id=f"{source}-{way.name}") for source in SOURCES for way in WAYS]


def answer_of(loopback: Loopback, way: Way, body: bytes) -> Answer | Failure:
    with loopback.serving(stream(body) if way.streams else whole(body)) as exchange:
        return way.ask(exchange.base_url)


def without_ids(calls: list[Call]) -> list[Call]:
    return [Call(None, call.name, call.arguments) for call in calls]


def settled(calls: list[Call]) -> list[Call]:
    """An upstream's own empty arguments come back empty to a client of its own dialect: there, nothing is changed."""
    return [Call(call.id, call.name, {} if call.arguments == "" else call.arguments) for call in calls]


def check_ids(way: Way, calls: list[Call]) -> None:
    ids = [call.id for call in calls]
    if way.dialect != "gemini":  # where ids are optional
        assert all(ids)
    assert len({call_id for call_id in ids if call_id}) == len([call_id for call_id in ids if call_id])


@pytest.mark.parametrize(("way", "source", "turn"), CASES)
def test_an_sdk_reads_the_turn_of_another_dialect(loopback: Loopback, way: Way, source: str, turn: str) -> None:
    expected = TURNS[turn]
    recorded = recording(source, turn, streams=way.streams)
    answer = answer_of(loopback, way, through(recorded, source, way.dialect, streams=way.streams))
    assert isinstance(answer, Answer), answer
    assert answer.text == expected.text
    assert without_ids(settled(answer.calls)) == expected.calls
    check_ids(way, answer.calls)
    assert answer.stop == STOPS[expected.stop][way.dialect]
    tokens = (answer.input_tokens, answer.output_tokens, answer.cached_tokens)
    assert tokens == (expected.input_tokens, expected.output_tokens, expected.cached_tokens)
    if way.name == LAST_THOUGHT_ONLY:
        assert expected.thinking.endswith(answer.thinking)
    else:
        assert answer.thinking == expected.thinking


@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in WAYS])
def test_an_sdk_reads_its_own_dialect_forwarded(loopback: Loopback, way: Way) -> None:
    recorded = recording(way.dialect, "parallel_calls", streams=way.streams)
    forwarded = through(recorded, way.dialect, way.dialect, streams=way.streams, verbatim=True)
    assert forwarded == recorded
    answer = answer_of(loopback, way, forwarded)
    assert isinstance(answer, Answer), answer
    assert without_ids(answer.calls) == TURNS["parallel_calls"].calls


@pytest.mark.parametrize(("way", "source"), PAIRS)
def test_a_call_cut_by_the_output_limit_does_not_look_whole(loopback: Loopback, way: Way, source: str) -> None:
    recorded = recording(source, "cut_by_length", streams=way.streams)
    answer = answer_of(loopback, way, through(recorded, source, way.dialect, streams=way.streams))
    if isinstance(answer, Failure):
        assert (way.name, answer.name) in RAISES_UNLESS_COMPLETED
        return
    assert answer.stop == STOPS["length"][way.dialect]
    assert answer.text.startswith(TEXT)
    if way.name.endswith("messages_stream"):
        return  # the helper parses half an object as a whole one; the stop reason is what tells
    for call in answer.calls:
        assert isinstance(call.arguments, str), "half a call looks like a whole one"


@pytest.mark.parametrize(
    ("way", "source"), [pytest.param(way, source, id=f"{source}-{way.name}") for source in SOURCES for way in STREAMING]
)
def test_bytes_that_keep_a_connection_alive_are_ignored(loopback: Loopback, way: Way, source: str) -> None:
    exchange = ExchangeCore(way.dialect, source)
    exchange.verbatim = False
    translation = exchange.stream()
    sent = translation.keepalive()
    for frame in frames(recording(source, "parallel_calls", streams=True)):
        sent += translation.feed(frame)
        if not translation.ended:
            sent += translation.keepalive()
    answer = answer_of(loopback, way, sent + translation.close())
    assert isinstance(answer, Answer), answer
    assert answer.text == TEXT
    assert without_ids(answer.calls) == TURNS["parallel_calls"].calls


REFUSED = {
    "openai_chat": {"stop", "content_filter"},
    "openai_responses": {"completed", "incomplete:content_filter"},
    "anthropic": {"refusal"},
    "gemini": {"SAFETY", "STOP", "OTHER"},
}


@pytest.mark.parametrize(("way", "source"), PAIRS)
def test_a_refusal_is_an_answer_and_not_an_accident(loopback: Loopback, way: Way, source: str) -> None:
    recorded = recording(source, "refused", streams=way.streams)
    answer = answer_of(loopback, way, through(recorded, source, way.dialect, streams=way.streams))
    if isinstance(answer, Failure):
        assert (way.name, answer.name) in RAISES_UNLESS_COMPLETED
        return
    assert answer.calls == []
    assert answer.stop in REFUSED[way.dialect]
    assert (answer.input_tokens, answer.output_tokens) == (12, 7)


CUSTOM = {"model": "m", "input": "Patch it.", "tools": [{"type": "custom", "name": "apply_patch"}]}
PATCH = '*** Begin Patch\n+ "Zürich" ☂\n*** End Patch\n'


@pytest.mark.parametrize("source", ["anthropic", "gemini"])
@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in WAYS if way.dialect == "openai_responses"])
def test_a_custom_tool_is_called_with_its_text_by_a_model_that_knows_functions_only(
    loopback: Loopback, way: Way, source: str
) -> None:
    recorded = recording(source, "patch", streams=way.streams)
    answer = answer_of(loopback, way, through(recorded, source, way.dialect, streams=way.streams, asked=CUSTOM))
    assert isinstance(answer, Answer), answer
    assert without_ids(answer.calls) == [Call(None, "apply_patch", PATCH)]
    check_ids(way, answer.calls)


LEGACY = {
    "model": "m",
    "messages": [{"role": "user", "content": "Refresh."}],
    "functions": [{"name": "refresh", "parameters": {"type": "object", "properties": {}}}],
    "stream_options": {"include_usage": True},
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in WAYS if way.dialect == "openai_chat"])
def test_a_client_that_asked_with_functions_is_answered_with_a_function_call(
    loopback: Loopback, way: Way, source: str
) -> None:
    recorded = recording(source, "no_arguments", streams=way.streams)
    answer = answer_of(loopback, way, through(recorded, source, way.dialect, streams=way.streams, asked=LEGACY))
    assert isinstance(answer, Answer), answer
    assert without_ids(settled(answer.calls)) == TURNS["no_arguments"].calls
    assert not any(call.id for call in answer.calls)
    assert answer.stop == "function_call"
