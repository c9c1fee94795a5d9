"""An answer with native calls, told as the text of a model without them."""

from __future__ import annotations

import json

import pytest

from tests.textcalls.reading import read, read_every_way
from toolglot.ir import Block, Media, Refusal, Response, Source, Stop, StopReason, Text, Thinking, ToolCall
from toolglot.receipt import Receipt
from toolglot.textcalls import FORMATS
from toolglot.textcalls.answer_as_text import answer_as_text, response_text

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "units": {"type": "array"}},
}
TOOLS = {"weather": SCHEMA, "forecast": SCHEMA}
ARGUMENTS = '{"city": "Zürich", "days": 2, "units": ["km/h", "°C"]}'


def told(*content: Block, form: str = "hermes_json", stop: StopReason = "tool_calls") -> tuple[Response, Receipt]:
    receipt = Receipt()
    return answer_as_text(Response(content=content, stop=Stop(stop, raw="x")), form, receipt), receipt


def call(name: str = "weather", number: int = 0, complete: bool = True) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=ARGUMENTS, complete=complete)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_told_reads_as_the_same_calls(form: str) -> None:
    response, _ = told(Text(text="I look."), call(), call("forecast", 1), form=form)
    reading = read_every_way(form, TOOLS, response_text(response))
    assert reading.cut == []
    assert reading.calls == [("weather", json.loads(ARGUMENTS)), ("forecast", json.loads(ARGUMENTS))]


def test_a_model_without_calls_simply_ends() -> None:
    response, receipt = told(Text(text="I look."), call())
    assert (response.stop.reason, response.stop.raw) == ("end", None)
    assert all(isinstance(block, Text) for block in response.content)
    assert not receipt.losses


@pytest.mark.parametrize("stop", ["length", "refusal"])
def test_any_other_reason_to_stop_stays(stop: StopReason) -> None:
    response, _ = told(Text(text="I"), stop=stop)
    assert response.stop == Stop(stop, raw="x")


def test_reasoning_stands_between_the_marks_of_the_format() -> None:
    response, receipt = told(Thinking(text="Which city?"), Text(text="I look."), call())
    assert response_text(response).startswith("<think>Which city?</think>\nI look.\n<tool_call>")
    assert not receipt.losses
    reading = read("hermes_json", TOOLS, response_text(response))
    assert (reading.text.strip(), reading.reasoning, len(reading.calls)) == ("I look.", "Which city?", 1)


@pytest.mark.parametrize(
    ("lost", "what"),
    [
        (Thinking(), "reasoning"),
        (Thinking(text="I write </think> here."), "reasoning"),
        (call(complete=False), "call of weather"),
        (Media(kind="image", source=Source("url", "https://example.org/a.png")), "a part that is no text"),
    ],
)
def test_what_has_no_form_as_text_is_left_out_and_told(lost: Block, what: str) -> None:
    response, receipt = told(Text(text="Here."), lost)
    assert response_text(response) == "Here."
    assert [loss.what for loss in receipt.losses] == [what]


def test_prose_about_the_marks_does_not_become_a_call() -> None:
    response, receipt = told(Text(text='Write <tool_call>{"name": "weather", "arguments": {}}</tool_call>.'))
    assert read("hermes_json", TOOLS, response_text(response)).calls == []
    assert receipt


def test_a_refusal_is_text() -> None:
    response, _ = told(Refusal(text="No."), stop="refusal")
    assert response_text(response) == "No."
