"""Streams as one JSON array."""

from __future__ import annotations

import json

import pytest

from toolglot.server.json_array import JsonArray, wants_json_array
from toolglot.server.routes import Match, find

FRAMES = b'data: {"a":1}\n\ndata: {"b":"\\n\\n"}\r\n\r\ndata: {"c":\ndata: 3}\n\n'


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_however_the_frames_are_cut_the_array_is_whole(size: int) -> None:
    array = JsonArray()
    pieces = [array.feed(FRAMES[start : start + size]) for start in range(0, len(FRAMES), size)]
    assert json.loads(b"".join([*pieces, array.close()])) == [{"a": 1}, {"b": "\n\n"}, {"c": 3}]


def test_an_element_is_written_as_soon_as_its_frame_has_come() -> None:
    array = JsonArray()
    assert array.feed(b'data: {"a":1}\n') == b""
    assert array.feed(b"\n") == b'[{"a":1}'
    assert array.feed(b'data: {"b":2}\n\n') == b'\r\n,\r\n{"b":2}'
    assert array.close() == b"]"


def test_a_stream_of_nothing_is_an_empty_array() -> None:
    array = JsonArray()
    assert json.loads(array.feed(b"\n\n") + array.close()) == []


def test_blank_lines_keep_a_connection_alive_between_elements() -> None:
    array = JsonArray()
    written = array.feed(b"\n\n") + array.feed(b'data: {"a":1}\n\n') + array.feed(b"\n\n") + array.close()
    assert written.startswith(b"\n\n[")
    assert json.loads(written) == [{"a": 1}]


@pytest.mark.parametrize(
    ("path", "query", "answer"),
    [
        ("/v1beta/models/m:streamGenerateContent", {}, True),
        ("/v1beta/models/m:streamGenerateContent", {"alt": "json"}, True),
        ("/v1beta/models/m:streamGenerateContent", {"alt": "sse"}, False),
        ("/v1beta/models/m:generateContent", {}, False),
        ("/v1/messages", {}, False),
    ],
)
def test_an_array_is_wanted_where_events_are_not_asked_for(path: str, query: dict[str, str], answer: bool) -> None:
    match = find("POST", path)
    assert isinstance(match, Match)
    assert wants_json_array(match.route, query) is answer
