"""Whole tool loops of the Vercel AI SDK through a running gateway, onto a scripted upstream of any dialect.

Three turns: a call without arguments, two parallel calls of which one fails, and a last word that quotes the results.
"""

from __future__ import annotations

import pytest

from .answers import Answer, Way
from .answers import Call as Called
from .gateway import Gateways
from .python_loops import RESULTS
from .scripted import Seen
from .ways import AI_LOOPS
from .wires import WIRES, Call, Turn

WEATHER = {"city": "Zürich", "days": 2, "units": {"wind": "km/h"}, "hours": [6, 18.5]}
TIME = {"timezone": "Europe/Zurich"}
CALLS = [Called(None, "refresh", {}), Called(None, "get_weather", WEATHER), Called(None, "get_time", TIME)]


def script(seen: Seen) -> Turn:
    assert set(seen.tools) == set(RESULTS)
    if not seen.results:
        return Turn("First the data.", (Call("call_1", "refresh", {}),))
    if len(seen.results) == 1:
        both = Call("call_2", "get_weather", WEATHER), Call("call_3", "get_time", TIME)
        return Turn("Now both: Zürich ☂.", both)
    return Turn(" | ".join(seen.results))


@pytest.mark.parametrize("upstream", WIRES)
@pytest.mark.parametrize("loop", [pytest.param(loop, id=loop.name) for loop in AI_LOOPS])
def test_a_loop_of_three_turns_through_the_gateway(gateways: Gateways, loop: Way, upstream: str) -> None:
    gateway = gateways.to(upstream)
    gateway.play(script)
    answer = loop.ask(gateway.base_url)
    assert isinstance(answer, Answer), answer
    assert [Called(None, call.name, call.arguments) for call in answer.calls] == CALLS
    assert len({call.id for call in answer.calls}) in (len(CALLS), 1)  # one: an SDK that shows no ids
    quoted = answer.text.split(" | ")
    assert len(quoted) == len(CALLS)
    for call, said in zip(CALLS, quoted, strict=True):
        assert RESULTS[call.name][0] in said
    assert len(gateway.exchange.asked) == 3
