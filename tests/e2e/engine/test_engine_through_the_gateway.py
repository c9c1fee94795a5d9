"""The engine behind the gateway: every client dialect, each way in which the gateway can speak to llama.cpp."""

from __future__ import annotations

import json

import pytest

from tests.e2e.answers import Answer, Call, Way
from tests.e2e.ways import AI_LOOPS, LOOPS

from .asking import ASKING, FORECAST_ARGUMENTS, NAME, arguments, ask, ask_streamed
from .bigram_model import LAST_WORD, WORD
from .engine import SERVED

Urls = dict[str, str]


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("upstream", SERVED)
@pytest.mark.parametrize("client", ASKING)
def test_a_call_fits_the_schema_of_its_tool(gateways_to_engine: Urls, client: str, upstream: str, choice: str) -> None:
    """The schema reached the engine whole, for only its grammar knows what the arguments may be."""
    more = ASKING[client].required if choice == "required" else {}
    (call,) = ask(gateways_to_engine[upstream], client, more)
    assert Call(None, call.name, call.arguments) == Call(None, NAME, FORECAST_ARGUMENTS)
    assert call.id


@pytest.mark.parametrize("upstream", SERVED)
@pytest.mark.parametrize("client", ASKING)
def test_arguments_are_streamed_as_the_engine_writes_them(gateways_to_engine: Urls, client: str, upstream: str) -> None:
    pieces = ask_streamed(gateways_to_engine[upstream], client, {})
    assert json.loads("".join(pieces)) == FORECAST_ARGUMENTS
    if client != "gemini":
        assert max(map(len, pieces)) <= 2


@pytest.mark.parametrize("upstream", SERVED)
@pytest.mark.parametrize("client", ASKING)
def test_two_calls_in_one_answer(gateways_to_engine: Urls, client: str, upstream: str) -> None:
    calls = ask(gateways_to_engine[upstream], client, ASKING[client].temperature(1.0))
    assert [call.name for call in calls] == [NAME, NAME]
    assert len({call.id for call in calls}) == 2
    streamed = ask_streamed(gateways_to_engine[upstream], client, ASKING[client].temperature(1.0))
    assert arguments(streamed) == [call.arguments for call in calls]


PAIRS = [pytest.param(loop, upstream, id=f"{loop.name}-{upstream}") for loop in LOOPS + AI_LOOPS for upstream in SERVED]


@pytest.mark.parametrize(("loop", "upstream"), PAIRS)
def test_a_tool_loop_ends(gateways_to_engine: Urls, loop: Way, upstream: str) -> None:
    answer = loop.ask(gateways_to_engine[upstream])
    assert isinstance(answer, Answer), answer
    assert [Call(None, call.name, call.arguments) for call in answer.calls] == [
        Call(None, "get_time", {"timezone": WORD})
    ]
    assert answer.text == LAST_WORD
