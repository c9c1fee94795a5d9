"""A frame of Gemini's that a server sends twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.api import translate_stream


def frame(call: dict[str, Any], **beside: Any) -> bytes:
    part = {"functionCall": call, **beside}
    return b"data: " + json.dumps({"candidates": [{"content": {"parts": [part]}}]}).encode() + b"\r\n\r\n"


END = b'data: {"candidates":[{"finishReason":"STOP"}]}\r\n\r\n'
CALL = {"id": "i1", "name": "f", "args": {"a": 1}}


def calls(*frames: bytes) -> tuple[list[str], list[str]]:
    """The arguments of each call that a Chat client gets, and the lines of the receipt."""
    stream = translate_stream([*frames, END], "gemini", "openai_chat")
    chunks = [json.loads(line[6:]) for line in b"".join(stream).splitlines() if line.startswith(b"data: {")]
    deltas = [call for chunk in chunks for each in chunk["choices"] for call in each["delta"].get("tool_calls", ())]
    arguments = [""] * len({delta["index"] for delta in deltas})
    for delta in deltas:
        arguments[delta["index"]] += delta["function"].get("arguments", "")
    return arguments, [str(line) for line in stream.receipt]


def test_a_call_that_comes_twice_with_its_id_is_given_once() -> None:
    arguments, receipt = calls(frame(CALL), frame(CALL))
    assert arguments == ['{"a": 1}']
    assert receipt == [
        "note: $.candidates[0].content.parts[0].functionCall: call i1: it came twice and is passed on once"
    ]


@pytest.mark.parametrize(
    "second",
    [
        frame({**CALL, "args": {"a": 2}}),
        frame({**CALL, "name": "g"}),
        frame({**CALL, "id": "i2"}),
        frame(CALL, thoughtSignature="QQ=="),
    ],
)
def test_a_call_that_differs_in_anything_is_a_second_one(second: bytes) -> None:
    assert len(calls(frame(CALL), second)[0]) == 2


def test_calls_without_ids_may_be_the_same_and_are_two() -> None:
    call = {"name": "f", "args": {}}
    assert calls(frame(call), frame(call))[0] == ["{}", "{}"]
