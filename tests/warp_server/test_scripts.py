"""The dialect reads what the scripted upstream says: whole, and in a stream that is cut anywhere."""

from __future__ import annotations

import json
import time

import pytest

from tests.case_files import cases_with
from tests.exchanges import calls_of, check, folded, read_events, spoken, through
from tests.warp_server import frames, story, wire
from tests.warp_server.messages import encode
from tests.warp_server.scripts import ODD_FIELDS, REFUSALS, SCRIPTS, Script
from tests.warp_server.state import added_up
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Fault
from toolglot.ir import Response
from toolglot.translate import ExchangeCore

WARP = DIALECTS["warp"]
FAILED = {name: script for name, script in SCRIPTS.items() if script.error is not None}
SOUND = {name: script for name, script in SCRIPTS.items() if script.error is None}
TAKEN_BACK = "a transaction that is rolled back"
"""Whoever streams has passed the text on by then."""
CLIENTS = [name for name in DIALECTS if name != "warp"]


def says(response: Response, script: Script) -> None:
    said = spoken(response.content)
    assert said["text"] == script.text
    assert [call[1:] for call in said["calls"]] == [call[1:] for call in script.calls]
    assert len({call[0] for call in said["calls"]}) in (0, len(script.calls))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", SOUND)
def test_a_script_reaches_every_client_as_it_is_meant(name: str, client: str) -> None:
    script = SOUND[name]
    response = DIALECTS[client].decode_response(ExchangeCore(client, "warp").response(script.body))
    says(response, script)
    assert response.stop.reason == script.end or client in ("openai_responses", "gemini")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", [name for name in SOUND if name != TAKEN_BACK])
def test_a_streamed_script_reaches_every_client_as_it_is_meant(name: str, client: str) -> None:
    script = SOUND[name]
    for size in (1, 7, len(script.body)):
        chunks = [script.body[at : at + size] for at in range(0, len(script.body), size)]
        events = read_events(client, [through(ExchangeCore(client, "warp"), chunks)])
        check(events)
        says(folded(events), script)


@pytest.mark.parametrize("name", SOUND)
def test_reasoning_and_ids_are_those_of_the_upstream(name: str) -> None:
    said = spoken(WARP.decode_response(SOUND[name].body).content)
    assert said["thinking"] == SOUND[name].thinking
    if "built-in" not in name:
        assert [call[0] for call in said["calls"]] == [call.id for call in SOUND[name].calls]


def test_text_that_was_passed_on_and_taken_back_is_an_error() -> None:
    events = read_events("warp", [SOUND[TAKEN_BACK].body])
    check(events)
    assert isinstance(events[-1], Fault)


@pytest.mark.parametrize("name", FAILED)
def test_a_script_that_fails_ends_in_its_own_kind_of_error(name: str) -> None:
    script = FAILED[name]
    events = read_events("warp", [script.body])
    check(events)
    last = events[-1]
    assert isinstance(last, Fault)
    assert last.error.kind == script.error
    assert last.error.message
    with pytest.raises((UpstreamError, DecodeError)):
        WARP.decode_response(script.body)


def test_whole_numbers_are_integers_again_and_others_stay() -> None:
    """A Struct knows only doubles."""
    (call,) = calls_of(WARP.decode_response(SOUND["numbers of every kind, and nested"].body).content)
    arguments = json.loads(call.arguments)
    assert [repr(arguments[key]) for key in ("count", "ratio", "below", "big")] == ["5", "2.5", "-7", repr(2**53)]


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_has_its_own_kind(name: str) -> None:
    refused = REFUSALS[name]
    error = WARP.decode_error(refused.status, refused.headers, refused.body)
    assert (error.kind, error.status) == (refused.error, refused.status)
    assert error.message


def test_fields_of_a_message_that_nobody_knows_come_back_as_they_were() -> None:
    events = [*story.opening(), story.add(story.said(3, "Hi", **ODD_FIELDS)), story.finished()]
    again = through(ExchangeCore("warp", "warp"), [frames.stream(events)])
    (message,) = [
        message for message in added_up(frames.events_of(again)).root["messages"] if "agent_output" in message
    ]
    assert {key: value for key, value in message.items() if key.startswith("#")} == ODD_FIELDS


@pytest.mark.parametrize("depth", [20, 100, 5000])
@pytest.mark.parametrize("target", DIALECTS)
def test_a_schema_that_is_nested_too_deeply_is_refused(target: str, depth: int) -> None:
    value = innermost = wire.double_field(2, 1.0)
    for _ in range(depth):
        entry = wire.bytes_field(1, b"a") + wire.bytes_field(2, value)
        value = wire.bytes_field(5, wire.bytes_field(1, entry))
    struct = wire.bytes_field(1, wire.bytes_field(1, b"a") + wire.bytes_field(2, value))
    tool = wire.bytes_field(1, b"f") + wire.bytes_field(3, struct)
    raw = encode("Request", {"input": {"user_query": {"query": "Hi"}}})
    raw += wire.bytes_field(6, wire.bytes_field(2, tool))
    assert innermost in raw
    try:
        ExchangeCore("warp", target, model="m").request(raw)
    except DecodeError as error:
        assert depth > 20
        assert error.where.startswith("$")


@pytest.mark.parametrize("name", ["full", "tool_round_trip"])
def test_a_request_that_is_cut_anywhere_is_read_or_refused(name: str) -> None:
    """The beginning of a message may be a message."""
    (case,) = [case for case in cases_with("request", "warp") if case.name == name]
    raw = case.read("request")
    refused = 0
    for end in range(len(raw)):
        try:
            WARP.decode_request(raw[:end])
        except DecodeError as error:
            refused += 1
            assert error.where.startswith("$")
    assert refused > len(raw) // 2


def test_a_hundred_thousand_messages_are_no_trouble() -> None:
    messages = [story.asked(number, "Hi") for number in range(1000)] * 100
    raw = encode("Request", {"task_context": {"tasks": [{"id": "t", "messages": messages}]}})
    raw += encode("Request", {"input": {"user_query": {"query": "Hi"}}})
    start = time.process_time()
    assert len(WARP.decode_request(raw).messages) == 100_001
    assert time.process_time() - start < 10
