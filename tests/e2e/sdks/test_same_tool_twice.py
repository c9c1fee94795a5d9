"""Google's SDK for Python answers calls without their ids. Two calls of one tool must still get their own results."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from tests.e2e.gateway import Gateways
from tests.e2e.python_ways import MODEL, genai_client
from tests.e2e.scripted import Seen, upstream
from tests.e2e.wires import WIRES, Call, Turn

from .received import READERS

CITIES = {"call_1": "Zürich", "call_2": "Oslo", "call_3": "Lima"}


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def script(seen: Seen) -> Turn:
    if not seen.results:
        return Turn("", tuple(Call(call_id, "get_weather", {"city": city}) for call_id, city in CITIES.items()))
    if len(seen.results) == len(CITIES):
        return Turn("", (Call("call_4", "get_weather", {"city": "Cairo"}),))
    return Turn("done")


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", WIRES)
def test_each_call_gets_its_own_result(gateways: Gateways, dialect: str, streams: bool) -> None:
    gateway = gateways.to(dialect)
    gateway.exchange.asked.clear()
    gateway.exchange.answer = upstream(dialect, script)
    config = types.GenerateContentConfig(http_options=types.HttpOptions(base_url=gateway.base_url), tools=[get_weather])
    chat: Any = genai_client().chats.create(model=MODEL, config=config)
    answers = list(chat.send_message_stream("Weather?")) if streams else [chat.send_message("Weather?")]
    assert "done" in "".join(answer.text or "" for answer in answers)
    received = READERS[dialect](gateway.exchange.asked[-1].json())
    cities = [*CITIES.values(), "Cairo"]
    assert [call.arguments for call in received.calls] == [{"city": city} for city in cities]
    assert len(received.results) == len(cities)
    assert all(get_weather(city) in result.text for city, result in zip(cities, received.results, strict=True))
    if dialect != "gemini":  # to which the client's own bytes go
        assert [result.call_id for result in received.results] == [call.id for call in received.calls]
        assert [call.id for call in received.calls] == [*CITIES, "call_4"]
