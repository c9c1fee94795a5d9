"""The linter over whole recordings: however they are cut, whatever they hold, and over all that we write ourselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import Case, cases_with
from tests.forms import form
from tests.lint.streams import ANTHROPIC, SOUND, Fields, sse
from toolglot.api import translate_stream
from toolglot.dialects import DIALECTS
from toolglot.lint import lint


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("case", cases_with("stream"), ids=lambda case: f"{case.dialect}-{case.name}")
def test_what_we_write_is_sound(case: Case, target: str) -> None:
    """However untidy the source is. Within one dialect the bytes go through as they are."""
    if case.dialect != target:
        written = b"".join(translate_stream([case.read("stream")], case.dialect, target))
        assert [str(breach) for breach in lint(target, [written])] == []


@pytest.mark.parametrize("dialect", SOUND)
def test_cutting_a_recording_anywhere_changes_nothing(dialect: str) -> None:
    recording = SOUND[dialect]
    assert lint(dialect, [recording[index : index + 1] for index in range(len(recording))]) == []
    assert lint(dialect, [recording.replace(b"\n", b"\r\n")]) == []


@pytest.mark.parametrize("dialect", SOUND)
def test_a_recording_that_stops_at_any_event_is_told(dialect: str) -> None:
    events = SOUND[dialect].split(b"\n\n")
    for count in range(len(events) - 2):
        assert lint(dialect, [b"\n\n".join(events[:count]) + b"\n\n"]), count


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "text", "message_start", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=2),
    max_leaves=5,
)


def inner_values(node: Any) -> list[Any]:
    values = node.values() if isinstance(node, dict) else node
    return [value for value in values if value and isinstance(value, dict | list)]


@st.composite
def mangled(draw: st.DrawFn, dialect: str) -> bytes:
    """A sound stream in which members anywhere have been given other values."""
    events = SOUND[dialect].split(b"\n\n")
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(events) - 1))
        head, mark, data = events[number].partition(b"data:")
        if not mark or data.strip() == b"[DONE]":
            continue
        wire = form(dialect, "frame")
        document = node = wire.read(data)
        for _ in range(draw(st.integers(0, 5))):
            if isinstance(node, dict | list) and (inner := inner_values(node)):
                node = draw(st.sampled_from(inner))
        if isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            node[key] = draw(values)
        events[number] = head + mark + wire.write(document)
    return b"\n\n".join(events)


@pytest.mark.parametrize("dialect", SOUND)
@given(data=st.data())
def test_no_recording_breaks_the_linter(dialect: str, data: st.DataObject) -> None:
    for breach in lint(dialect, [data.draw(mangled(dialect))]):
        assert breach.rule
        assert "\n" not in str(breach)


@pytest.mark.parametrize("dialect", SOUND)
@given(recording=st.binary(max_size=200) | st.text('dataevent: \n\r{}[]"0a,', max_size=80).map(str.encode))
def test_bytes_of_any_kind_are_told_and_never_raise(dialect: str, recording: bytes) -> None:
    assert lint(dialect, [recording])


def test_an_anthropic_message_may_be_whole_in_its_start() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
    message = {**ANTHROPIC[0]["message"], "content": [call], "stop_reason": "tool_use"}
    whole: list[Fields] = [{"type": "message_start", "message": message}, {"type": "message_stop"}]
    assert lint("anthropic", [sse(whole, named=True)]) == []
    unfinished: list[Fields] = [
        {"type": "message_start", "message": {**message, "stop_reason": None}},
        {"type": "message_stop"},
    ]
    assert [breach.rule for breach in lint("anthropic", [sse(unfinished, named=True)])] == ["stop-last"]
