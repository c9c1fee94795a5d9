"""A stream on its way to the client: its response objects are completed, everything else goes through."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest

from tests.server.responses_turns import message, response
from toolglot.gateway.features.responses_history import ExpandedRequest, StreamRewriter
from toolglot.translate import ExchangeCore


def frames(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(frame.partition(b"data: ")[2]) for frame in stream.split(b"\n\n") if b"data: " in frame]


def streamed(*output: dict[str, Any]) -> bytes:
    stream = ExchangeCore("openai_responses", "openai_responses").stream()
    return stream.feed(response(*output)) + stream.close()


LINKED = ExpandedRequest(body=b"", id="resp_1", is_local=True, store=True, previous="resp_0")


def test_every_response_object_of_a_stream_says_the_same() -> None:
    tap = StreamRewriter(LINKED)
    data = streamed(message("Hi"))
    told = frames(tap.feed(data) + tap.close())
    objects = [event["response"] for event in told if "response" in event]
    assert [event["type"] for event in told] == [event["type"] for event in frames(data)]
    assert len(objects) == 3
    assert {(one["id"], one["previous_response_id"], one["store"]) for one in objects} == {("resp_1", "resp_0", True)}
    assert tap.response is not None
    assert json.loads(tap.response) == objects[-1]
    assert objects[-1]["output"] == [message("Hi")]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("named", [True, False])
def test_a_stream_may_be_cut_anywhere(line_end: bytes, named: bool) -> None:
    data = streamed(message("Hi"))
    if not named:
        data = b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b"event:"))
    data = data.replace(b"\n", line_end)
    whole = StreamRewriter(LINKED)
    expected = whole.feed(data) + whole.close()
    tap = StreamRewriter(LINKED)
    told = b"".join(tap.feed(data[place : place + 1]) for place in range(len(data))) + tap.close()
    assert told == expected
    assert tap.response == whole.response
    assert tap.response is not None
    assert frames(told.replace(line_end, b"\n"))[0]["response"]["id"] == "resp_1"


def test_events_between_the_objects_go_through_as_they_are() -> None:
    tap = StreamRewriter(LINKED)
    for data in (
        b": keepalive\n\n",
        b'event: response.output_text.delta\ndata: {"type": "x", "delta": "response.created"}\n\n',
        b'data: {"type":"response.output_text.delta","delta":"\\"type\\":\\"response.completed\\""}\n\n',
        b"data: [DONE]\n\n",
        b"event: response.completed\ndata: {broken\n\n",
    ):
        assert tap.feed(data) == data
    assert tap.response is None


@pytest.mark.parametrize("end", ["failed", "created", "in_progress"])
def test_a_stream_that_did_not_end_well_gives_no_response(end: str) -> None:
    tap = StreamRewriter(LINKED)
    told = tap.feed(
        b'event: response.%b\ndata: {"type":"response.%b","response":{"id":"x"}}\n\n' % ((end.encode(),) * 2)
    )
    assert json.loads(told.partition(b"data: ")[2])["response"]["id"] == "resp_1"
    assert tap.response is None


def test_an_endless_event_is_let_through() -> None:
    tap = StreamRewriter(LINKED, limit=100)
    data = b"data: " + b"x" * 60
    assert tap.feed(data) == b""
    assert tap.feed(data) == data + data
    assert tap.feed(b"more") == b"more"


def test_half_an_event_at_the_end_is_not_swallowed() -> None:
    tap = StreamRewriter(LINKED)
    assert tap.feed(b"data: {") == b""
    assert tap.close() == b"data: {"


def test_a_stream_whose_state_lies_elsewhere_is_not_touched() -> None:
    tap = StreamRewriter(ExpandedRequest(body=b""))
    data = streamed(message("Hi"))
    assert tap.feed(data) is data
    assert tap.response is None


def lifecycle(kind: bytes, end: bytes, padding: int = 0) -> bytes:
    data = b'{"type":"response.%b","response":{"id":"x","pad":"%b"}}' % (kind, b"y" * padding)
    return b"event: response.%b\ndata: %b%b" % (kind, data, end)


@pytest.mark.parametrize("end", [b"\n\r\n", b"\r\n\n"])
def test_events_may_end_with_two_kinds_of_line_ends(end: bytes) -> None:
    tap = StreamRewriter(LINKED)
    delta = b'event: other\ndata: {"type":"other"}' + end
    told = tap.feed(delta + lifecycle(b"created", end) + delta) + tap.feed(delta + lifecycle(b"completed", b"\n\n"))
    assert told.count(delta) == 3
    assert told.count(b'"id":"resp_1"') == 2
    assert tap.response is not None


def test_a_large_event_costs_no_more_than_its_bytes() -> None:
    tap = StreamRewriter(LINKED)
    before = process_time()
    for end in (b"\n\r\n", b"\n\n", b"\n\r"):
        tap.feed(lifecycle(b"in_progress", end, 2_000_000))
    assert process_time() - before < 1.0
