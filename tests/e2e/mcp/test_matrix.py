"""Every client's dialect with every upstream's: tools that the gateway runs, and the client's own, in one turn.

The model calls a served tool. In the next round, which to the client is the same answer, it calls a served tool and the
client's at once. The client sees its own call, answers it, and in its next turn the model is told everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import count, repeat
from typing import Any

import pytest

from tests.e2e.answers import Call as Called
from tests.e2e.recordings import STOPS
from tests.e2e.scripted import Script, Seen
from tests.e2e.wires import Call, Turn

from .conversations import CONVERSATIONS, OWN, Conversation, Said, Served
from .gateways import Running
from .upstreams import TEXT, UPSTREAMS, Upstream

ADD, ECHO = "everyday__add", "everyday__echo"
CITY = {"city": "Zürich"}
SUM = {"a": 2, "b": 3}
WORDS = {"text": "Grüezi ☂"}
WEATHER = "17 °C, rain ☂"
PROMPT = "Add 2 and 3, greet me, and tell me the weather."
TOLD = {
    "openai_responses": [*["message", "mcp_call"] * 2, "function_call"],
    "anthropic": [*["text", "mcp_tool_use", "mcp_tool_result"] * 2, "tool_use"],
}
"""What a client with words for served calls is told."""
ORDERS = {"served first": (ECHO, OWN), "own first": (OWN, ECHO)}


def script(order: tuple[str, ...], sums: Iterable[dict[str, int]] = repeat(SUM), prefix: str = "call_") -> Script:
    """Each answer's calls have ids of their own, with this prefix. `sums` are what each conversation adds up."""
    number, adding = count(1), iter(sums)

    def call(name: str, arguments: dict[str, Any]) -> Call:
        return Call(f"{prefix}{next(number)}", name, arguments)

    def follow(seen: Seen) -> Turn:
        assert {ADD, ECHO, OWN} <= set(seen.tools)
        if not seen.results:
            return Turn("First the sum.", (call(ADD, next(adding)),))
        if len(seen.results) == 1:
            return Turn("Now both.", tuple(call(name, CITY if name == OWN else WORDS) for name in order))
        return Turn("All: " + " | ".join(seen.results))

    return follow


@pytest.mark.parametrize(
    ("streams", "order"), [(True, "served first"), (False, "own first")], ids=["streamed", "whole"]
)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CONVERSATIONS)
def test_served_and_own_calls_in_one_turn(
    stored: Running, client: str, upstream: str, order: str, streams: bool
) -> None:
    talk(stored, client, upstream, order, streams)


@pytest.mark.parametrize(
    ("streams", "order"), [(True, "own first"), (False, "served first")], ids=["streamed", "whole"]
)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["responses", "messages"])
def test_without_a_store_the_clients_own_words_carry_it(
    storeless: Running, client: str, upstream: str, order: str, streams: bool
) -> None:
    talk(storeless, client, upstream, order, streams)


def talk(gateway: Running, client: str, upstream: str, order: str, streams: bool) -> None:
    behind = gateway.upstreams[upstream]
    behind.play(script(ORDERS[order]), CONVERSATIONS[client].dialect)
    conversation: Conversation = CONVERSATIONS[client](gateway.base_url, upstream, streams)
    first = conversation.say(PROMPT)
    assert behind.refused == []
    assert len(behind.received) == 2
    check_first(first, CONVERSATIONS[client].dialect, streams)
    second = conversation.give({first.calls[0].id: WEATHER})
    assert behind.refused == []
    assert second.text == f"All: {' | '.join(result.text for result in behind.received[-1].results)}"
    assert (second.calls, second.served) == ([], [])
    assert second.stop == STOPS["end"][CONVERSATIONS[client].dialect]
    # What one answer of the model costs is told of the second turn, and twice that of the first.
    assert min(second.tokens) > 0
    assert first.tokens == (2 * second.tokens[0], 2 * second.tokens[1])
    check_told(behind, upstream, ORDERS[order])


def check_first(said: Said, dialect: str, streams: bool) -> None:
    """The client sees all of the model's words, its own call, and of the others what its API has words for."""
    assert [Called(None, call.name, call.arguments) for call in said.calls] == [Called(None, OWN, CITY)]
    assert said.stop == STOPS["tool_calls"][dialect]
    assert "".join(said.text.split()) == "Firstthesum.Nowboth."  # in two pieces or in one
    if dialect in TOLD:
        assert sorted(said.kinds) == sorted(TOLD[dialect])
        assert said.thinking == ""
        sum_, echo = said.served
        assert (sum_.server, sum_.name, sum_.arguments, sum_.failed) == ("everyday", "add", SUM, False)
        assert json.loads(sum_.output or "") == {"total": 5}
        assert echo == Served("everyday", "echo", WORDS, WORDS["text"])
    else:
        assert said.served == []
        for told in ("everyday: add", "everyday: echo", '"total": 5', WORDS["text"]):
            assert told in said.thinking
            assert told not in said.text


def check_told(behind: Upstream, upstream: str, order: tuple[str, ...]) -> None:
    """In the second turn the model is told both rounds: its calls under its own ids, and behind the calls of each round
    their results."""
    told = behind.received[-1]
    arguments = {ADD: SUM, ECHO: WORDS, OWN: CITY}
    outputs = {ADD: '"total": 5', ECHO: WORDS["text"], OWN: WEATHER}
    assert [(call.name, call.arguments) for call in told.calls] == [(name, arguments[name]) for name in (ADD, *order)]
    assert re.fullmatch(r"\.*cr\.*ccrr\.*", told.order)
    if upstream != TEXT:
        assert sorted(str(call.id) for call in told.calls) == ["call_1", "call_2", "call_3"]
        assert sorted(str(result.call_id) for result in told.results) == ["call_1", "call_2", "call_3"]
    names = {call.id: call.name for call in told.calls}
    for number, result in enumerate(told.results):
        name = (ADD, *order)[number] if upstream == TEXT else names[result.call_id]
        assert outputs[name] in result.text
        assert not result.failed
