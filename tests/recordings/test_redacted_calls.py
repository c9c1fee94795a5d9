"""Calls in whose arguments something was redacted: whatever a pattern matches, their recordings can be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.recordings.made import exchange
from toolglot.config.schema import RecordConfig
from toolglot.dialects import DIALECTS
from toolglot.export.jsonl import write_jsonl
from toolglot.export.markdown import render_markdown
from toolglot.export.readers import read_recordings
from toolglot.recordings.format import (
    AnyLine,
    ClientData,
    RecordedClientRequest,
    RecordedData,
    RecordingEnd,
    RecordingHead,
    UpstreamData,
)
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.redact import Redactor
from toolglot.recordings.rerun.run import rerun
from toolglot.recordings.timeline import make_timeline
from toolglot.recordings.writing.recorder import Recorder
from toolglot.upstream.replay.index import RecordingIndex

ODD = (
    *(r"\d", r"\d+", r"[0-9]\.", r"[a-z]+", r"\w+", r".", r".+", r"\W", r"\s", r"[{}]", r":", r"[\[\],]", r"\\", r'"'),
    *(
        r"tru",
        r"ul",
        r"e",
        r"city.*",
        r'"city.*',
        r'city.: ?\\?"',
        r"n.: \[",
        r"function",
        r"user|role|type",
        r"[A-Z]\w+",
    ),
    *(r"example\.com", r"[a-z_]+_chat", r"x+", r'[^"]+', r"-?\d+\.\d+, ?-?\d+\.\d+", r"(?i)PARIS", r"é|\\u00e9"),
)
"""Patterns that match structure, parts of words and of numbers, or everything."""
PLACE = {
    "city": "Paris",
    "at": [48.8566, -2.5e10],
    "open": True,
    "none": None,
    "in": [{"line1": "é\n", "line2": '"q"'}],
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PATTERNS = st.sampled_from(ODD) | st.lists(
    st.sampled_from((r"\d", r"[a-z]", r"\\", '"', ":", ",", "[{]", r"\]", " ", "t", "9", ".")), min_size=1, max_size=3
).map("".join).filter(str.strip)


def round_trip(arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "geo", "arguments": json.dumps(arguments)}}
    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Where is Paris, at 48.8566, 2.3522?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": json.dumps([arguments])},
        ],
        "tools": [{"type": "function", "function": {"name": "geo", "parameters": {"type": "object"}}}],
    }


def answered(upstream: str, arguments: dict[str, Any]) -> bytes:
    if upstream == "anthropic":
        block = {"type": "tool_use", "id": "toolu_1", "name": "geo", "input": arguments}
        usage = {"input_tokens": 12, "output_tokens": 3}
        answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block]}
        return json.dumps(answer | {"stop_reason": "tool_use", "usage": usage}).encode()
    call = {"id": "call_2", "type": "function", "function": {"name": "geo", "arguments": json.dumps(arguments)}}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}}
    return json.dumps(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    ).encode()


def written(folder: Path, lines: Iterable[AnyLine], pattern: str) -> Recording:
    """What a recorder makes of them."""
    recorder = Recorder(RecordConfig(directory=str(folder), redact=(pattern,)))
    recorder.start()
    writing = recorder.begin("req_1", ())
    head = RecordingHead()
    for line in lines:
        match line:
            case RecordingHead():
                head = line
            case RecordedClientRequest():
                writing.begin(head, line, line.data)
            case UpstreamData(attempt=attempt):
                writing.piece(attempt, line.at, line.data)
            case ClientData():
                writing.piece(0, line.at, line.data)
                writing.over(0, line.at)
            case RecordingEnd():
                writing.end(line)
            case _:
                writing.line(line, line.data if isinstance(line, RecordedData) else b"")
    recorder.close()
    (file,) = folder.iterdir()
    return read_recording(file.read_bytes())


def use(recording: Recording, folder: Path) -> None:
    """All that can be done with a recording."""
    asyncio.run(rerun(recording))
    assert make_timeline(recording).entries
    messages = tuple(read_recordings([("", recording)]).messages)
    assert "geo" in "".join(render_markdown(messages)) or "[redacted]" in "".join(render_markdown(messages))
    for dialect in DIALECTS:
        assert list(write_jsonl(messages, recording.head.client, dialect, lambda line: None))
    index = RecordingIndex(folder)
    index.refresh()
    assert index.entries == 1


@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("pattern", ODD)
def test_a_recording_with_redacted_arguments_can_be_used(tmp_path: Path, pattern: str, upstream: str) -> None:
    lines = exchange("openai_chat", upstream, round_trip(PLACE), answered(upstream, PLACE))
    use(written(tmp_path, lines, pattern), tmp_path)


def streamed(arguments: dict[str, Any], size: int) -> list[bytes]:
    """The answer of an upstream in chunks, with so many characters of the arguments in each."""
    text = json.dumps(arguments)
    begun = {"index": 0, "id": "call_2", "type": "function", "function": {"name": "geo", "arguments": ""}}
    grown = [{"index": 0, "function": {"arguments": text[at : at + size]}} for at in range(0, len(text), size)]
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, *({"tool_calls": [call]} for call in (begun, *grown)), {}]
    ends = [None] * (len(deltas) - 1) + ["tool_calls"]
    chunks = [
        {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]
    return [*(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks), b"data: [DONE]\n\n"]


@pytest.mark.parametrize("size", [7, 1000])
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize("pattern", ODD)
def test_a_recorded_stream_with_redacted_arguments_can_be_used(
    tmp_path: Path, pattern: str, client: str, size: int
) -> None:
    asked = {"model": "m", "input": "Where is Paris?"} if client == "openai_responses" else round_trip(PLACE)
    lines = exchange(client, "openai_chat", {**asked, "stream": True}, streamed(PLACE, size))
    use(written(tmp_path, lines, pattern), tmp_path)


@examples(2)
@given(arguments=st.dictionaries(st.text(max_size=6), VALUES, max_size=4), pattern=PATTERNS)
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_whatever_the_arguments_and_the_pattern_the_recording_can_be_used(
    upstream: str, arguments: dict[str, Any], pattern: str
) -> None:
    lines = exchange("openai_chat", upstream, round_trip(arguments), answered(upstream, arguments))
    with TemporaryDirectory() as folder:
        use(written(Path(folder), lines, pattern), Path(folder))


@examples(5)
@given(arguments=st.dictionaries(st.text(max_size=6), VALUES, max_size=4), pattern=PATTERNS, levels=st.integers(1, 3))
def test_a_document_inside_of_a_string_stays_one(arguments: dict[str, Any], pattern: str, levels: int) -> None:
    text: Any = arguments
    for _ in range(levels):
        text = {"a": json.dumps(text)}
    read: Any = json.loads(Redactor(finders=[LinearPattern(pattern).find]).body(json.dumps(text).encode()))
    for _ in range(levels):
        (inner,) = read.values()
        read = json.loads(inner)
    assert shape(read) == shape(arguments)


def shape(value: Any) -> Any:
    """How a document is built, without what it says."""
    if isinstance(value, dict):
        return [shape(member) for member in value.values()]
    return (
        [shape(member) for member in value] if isinstance(value, list) else type(value) in (int, float) or type(value)
    )


@pytest.mark.parametrize("pattern", [r"Paris", r"\d+\.\d+", r"line\d", r"48", r"true", r"tru", r"é"])
def test_the_same_is_redacted_in_arguments_that_are_text_and_in_those_that_are_not(
    tmp_path: Path, pattern: str
) -> None:
    lines = exchange("openai_chat", "anthropic", round_trip(PLACE), answered("anthropic", PLACE))
    outcome = asyncio.run(rerun(written(tmp_path, lines, pattern)))
    assert outcome.comparison.differences == []


def test_an_address_whose_host_was_redacted_is_one(tmp_path: Path) -> None:
    lines = exchange("openai_chat", "openai_chat", round_trip(PLACE), answered("openai_chat", PLACE))
    recording = written(tmp_path, lines, r"example\.com")
    assert recording.attempts[0].request.url.startswith("https://[redacted]/")
    assert not asyncio.run(rerun(recording)).comparison.differs


def test_many_matches_in_a_body_take_linear_time() -> None:
    body = json.dumps({"many": list(range(100_000)), "in a text": json.dumps(list(range(20_000)))}).encode()
    began = process_time()
    json.loads(json.loads(Redactor(finders=[LinearPattern(r"\d+").find]).body(body))["in a text"])
    assert process_time() - began < 15


def test_a_long_number_is_redacted_whatever_its_member_is_called() -> None:
    body = b'{"index": 4111111111111111, "choices": [{"index": 12}]}'
    redacted = Redactor(finders=[LinearPattern(r"\d+").find]).body(body)
    assert redacted == b'{"index": 9999999999999999, "choices": [{"index": 12}]}'
