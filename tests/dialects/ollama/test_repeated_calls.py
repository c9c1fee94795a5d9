"""A line of Ollama's that a server sends twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.api import translate_stream

END = b'{"model":"m","message":{"role":"assistant"},"done":true,"prompt_eval_count":2,"eval_count":1}\n'
CALL: dict[str, Any] = {"id": "i1", "function": {"name": "f", "arguments": {"a": 1}}}


def line(*calls: dict[str, Any]) -> bytes:
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    return json.dumps({"model": "m", "message": message, "done": False}).encode() + b"\n"


def read_calls(*lines: bytes) -> tuple[list[str], list[str]]:
    """The arguments of each call that an Anthropic client gets, and the lines of the receipt."""
    stream = translate_stream([*lines, END], "ollama", "anthropic")
    events = [json.loads(data[6:]) for data in b"".join(stream).splitlines() if data.startswith(b"data: {")]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return [delta["partial_json"] for delta in deltas], [str(note) for note in stream.receipt]


def test_a_call_that_comes_twice_with_its_id_is_given_once() -> None:
    arguments, receipt = read_calls(line(CALL), line(CALL))
    assert arguments == ['{"a": 1}']
    assert receipt == ["note: $.message.tool_calls[0]: call i1: it came twice and is passed on once"]


@pytest.mark.parametrize(
    "lines",
    [
        [line(CALL), line({"id": "i2", "function": CALL["function"]})],
        [line(CALL), line({"id": "i1", "function": {"name": "f", "arguments": {"a": 2}}})],
        [line(CALL), line({"id": "i1", "function": {"name": "g", "arguments": {"a": 1}}})],
        [line({"function": CALL["function"]}), line({"function": CALL["function"]})],
        [line(CALL, CALL)],
    ],
)
def test_other_calls_are_given(lines: list[bytes]) -> None:
    arguments, receipt = read_calls(*lines)
    assert len(arguments) == 2
    assert not any("twice" in note for note in receipt)
