"""Loops that go wrong between two rounds, or would never end, and many of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, cycle, islice
from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors as genai_errors

from tests.e2e.loopback import Loopback
from tests.e2e.scripted import Seen
from tests.e2e.wires import Call, Turn

from .conversations import CONVERSATIONS, Said
from .gateways import EVERYDAY, Running, gateway, python_server
from .test_matrix import ADD, ORDERS, PROMPT, WEATHER, script
from .upstreams import TEXT, UPSTREAMS, scripted

ERRORS = (openai.APIError, anthropic.APIError, genai_errors.APIError, RuntimeError)
"""The last is how OpenAI's SDK says in a stream that a response has failed."""
ROUNDS, CALLS = 3, 4


@pytest.fixture(scope="module")
def limited(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with few rounds to spare."""
    servers = {"everyday": python_server(EVERYDAY, policy="auto")}
    more = f"[mcp]\nrounds = {ROUNDS}\ncalls = {CALLS}\n"
    folder = tmp_path_factory.mktemp("limited")
    with (
        scripted(loopback, "replay") as upstreams,
        gateway(folder, upstreams, servers, attached=[*servers], more=more) as running,
    ):
        yield running


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", CONVERSATIONS)
def test_an_upstream_that_fails_in_the_second_round_is_an_error_to_the_client(
    limited: Running, client: str, streams: bool
) -> None:
    behind = limited.upstreams["openai_chat"]

    def accident(seen: Seen) -> Turn:
        if seen.results:
            raise AssertionError("the accident")
        return Turn("First the sum.", (Call("call_1", ADD, {"a": 1}),))

    behind.play(accident)
    with pytest.raises(ERRORS) as raised:
        CONVERSATIONS[client](limited.base_url, "openai_chat", streams).say(PROMPT)
    assert "the accident" in str(raised.value) or isinstance(raised.value, RuntimeError)
    assert behind.refused == ["the accident"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_model_that_calls_for_ever_is_stopped(limited: Running, upstream: str) -> None:
    behind, number = limited.upstreams[upstream], count(1)

    def endless(seen: Seen) -> Turn:
        return Turn("Again.", tuple(Call(f"call_{next(number)}", ADD, {"a": 1}) for _ in range(3)))

    behind.play(endless)
    said = CONVERSATIONS["messages"](limited.base_url, upstream, True, own=False).say("Never stop.")
    assert behind.refused == []
    assert len(behind.received) == ROUNDS
    assert [each.failed for each in said.served] == [False] * CALLS + [True] * 2
    assert "4 calls may be run" in str(said.served[-1].output)
    assert said.calls == []
    if upstream != TEXT:  # where a call that may not be made any more is nothing but text
        assert said.stop == "pause_turn"


def test_many_conversations_at_once_each_have_their_own_rounds(limited: Running) -> None:
    upstreams = [name for name in UPSTREAMS if name != "warp"]  # whose agent takes one after the other
    for name in upstreams:
        sums = [{"a": 100, "b": number} for number in range(30)]  # unlike a generator's, threads may share its iterator
        limited.upstreams[name].play(script(ORDERS["own first"], sums, f"{name}_"))

    def talk(pair: tuple[str, str]) -> tuple[Said, Said]:
        client, upstream = pair
        conversation: Any = CONVERSATIONS[client](limited.base_url, upstream, True)
        first = conversation.say(PROMPT)
        return first, conversation.give({first.calls[0].id: WEATHER})

    pairs = list(islice(zip(cycle(CONVERSATIONS), cycle(upstreams), strict=False), 30))
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(talk, pairs))
    assert [limited.upstreams[name].refused for name in upstreams] == [[]] * len(upstreams)
    for pair, (first, second) in zip(pairs, answers, strict=True):
        added = re.findall(r"\"total\": (\d+)", first.thinking + "".join(each.output or "" for each in first.served))
        assert re.findall(r"\"total\": (\d+)", second.text) == added[:1], pair
