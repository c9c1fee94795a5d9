"""A round of a loop that runs tools, translated again: a broken call of such a tool does not end the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.recordings.made import as_recording, exchange
from toolglot.events import Close, Fault, Finish
from toolglot.recordings.format import AnyLine, ServedTools, UpstreamRequest, body_members
from toolglot.recordings.retranslate import RetranslatedAttempt

OWN = {"name": "own", "input_schema": {"type": "object", "properties": {}}}
REQUEST = {
    "model": "m",
    "max_tokens": 99,
    "stream": True,
    "tools": [OWN],
    "messages": [{"role": "user", "content": "Hello"}],
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


def broken_call(name: str) -> list[bytes]:
    call = {"index": 0, "id": "call_a", "type": "function", "function": {"name": name, "arguments": '{"city" Oslo}'}}
    return [chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), b"data: [DONE]\n\n"]


def recorded(name: str, *, serves: bool) -> list[AnyLine]:
    lines = exchange("anthropic", "openai_chat", REQUEST, broken_call(name))
    if not serves:
        return lines
    made: list[AnyLine] = []
    for line in lines:
        if isinstance(line, UpstreamRequest):
            body = json.loads(as_recording(lines).attempts[0].request.data)
            body["tools"].append({"type": "function", "function": {"name": "run_here"}})
            made.append(replace(ServedTools(), **body_members(b"[]")))
            line = replace(line, **body_members(json.dumps(body).encode()))
        made.append(line)
    return made


@pytest.mark.parametrize(
    ("name", "serves", "ends_well"), [("run_here", True, True), ("own", True, False), ("run_here", False, False)]
)
def test_a_broken_call_of_a_tool_that_was_run_here_is_marked(name: str, serves: bool, ends_well: bool) -> None:
    recording = as_recording(recorded(name, serves=serves))
    assert recording.runs_tools == serves
    again = RetranslatedAttempt(recording, recording.attempts[0])
    events = [event for frame in broken_call(name) for event in again.feed(frame).events]
    events += again.close().events
    assert isinstance(events[-1], Finish if ends_well else Fault)
    assert not any(event.complete for event in events if isinstance(event, Close))
