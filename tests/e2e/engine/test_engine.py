"""The engine by itself, so that a failure behind the gateway can be told from one of the engine."""

from __future__ import annotations

import json

import pytest

from tests.e2e.answers import Answer, Call, Way
from tests.e2e.ways import LOOPS

from .asking import ASKING, FORECAST_ARGUMENTS, NAME, ask, ask_streamed
from .bigram_model import LAST_WORD, WORD
from .engine import SERVED, WANT_OUTPUT_INDEX


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("dialect", SERVED)
def test_a_call_fits_the_schema_of_its_tool(engine: str, dialect: str, choice: str) -> None:
    more = ASKING[dialect].required if choice == "required" else {}
    (call,) = ask(engine, dialect, more)
    assert Call(None, call.name, call.arguments) == Call(None, NAME, FORECAST_ARGUMENTS)
    pieces = ask_streamed(engine, dialect, more)
    assert json.loads("".join(pieces)) == FORECAST_ARGUMENTS
    assert max(map(len, pieces)) <= 2


@pytest.mark.parametrize("dialect", SERVED)
def test_at_a_higher_temperature_there_are_two_calls(engine: str, dialect: str) -> None:
    calls = ask(engine, dialect, ASKING[dialect].temperature(1.0))
    assert [call.name for call in calls] == [NAME, NAME]


COMPLETE = [loop for loop in LOOPS if loop.dialect in SERVED and loop.name not in WANT_OUTPUT_INDEX]


@pytest.mark.parametrize("loop", [pytest.param(loop, id=loop.name) for loop in COMPLETE])
def test_a_tool_loop_ends(engine: str, loop: Way) -> None:
    answer = loop.ask(engine)
    assert isinstance(answer, Answer), answer
    assert [Call(None, call.name, call.arguments) for call in answer.calls] == [
        Call(None, "get_time", {"timezone": WORD})
    ]
    assert answer.text == LAST_WORD
