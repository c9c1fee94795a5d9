"""What an answer is read by: the format that the model was told, and a call as the whole answer."""

from __future__ import annotations

import pytest

from toolglot.textcalls import Engine
from toolglot.textcalls.answer import answer_format
from toolglot.textcalls.events import CallEvent, merge_events
from toolglot.textcalls.settings import TextCalls

TOOLS = {"weather": {"type": "object", "properties": {"city": {"type": "string"}}}}
CALL = '{"name": "weather", "arguments": {"city": "Rome"}}'
WHOLE = [
    pytest.param(CALL, id="object"),
    pytest.param(f"[{CALL}]", id="list"),
    pytest.param(f"```json\n{CALL}\n```", id="fence"),
    pytest.param('[weather(city="Rome")]', id="python"),
]


def read(text: str, *, format_name: str = "hermes_json", rescue: bool = False) -> list[CallEvent]:
    settings = TextCalls(format=format_name, rescue=rescue)
    engine = Engine(answer_format(settings, callable_=True), TOOLS)
    return [*engine.feed(text), *engine.finish()]


@pytest.mark.parametrize("text", WHOLE)
@pytest.mark.parametrize("format_name", ["hermes_json", "anthropic_xml", "cline_xml", "kimi_k2", "harmony", "react"])
def test_a_call_without_marks_counts_where_it_is_the_whole_answer(format_name: str, text: str) -> None:
    events = read(text, format_name=format_name)
    assert ("start", 0, "weather") in events
    assert ("end", 0) in events


def test_a_call_without_marks_counts_behind_the_reasoning() -> None:
    assert ("end", 0) in read(f"<think>Hm.</think>\n{CALL}")


@pytest.mark.parametrize("text", [f"For example:\n{CALL}", f"For example:\n```json\n{CALL}\n```", '{"name": "Rome"}'])
def test_a_call_without_marks_is_text_behind_other_text_or_with_another_name(text: str) -> None:
    assert merge_events([*read(text), ("text", "")]) == [("text", text)]


def test_a_native_model_is_not_searched_for_calls_without_marks() -> None:
    assert read(CALL, rescue=True) == [("text", CALL)]
