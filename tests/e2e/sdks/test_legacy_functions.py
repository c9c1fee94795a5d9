"""Clients that still use Chat's deprecated `functions`, which knows one call at a time and no ids."""

from __future__ import annotations

import pytest

from tests.e2e.answers import Answer, Call
from tests.e2e.gateway import Gateways
from tests.e2e.python_loops import TOOLS
from tests.e2e.recordings import TURNS
from tests.e2e.scripted import Seen, upstream
from tests.e2e.wires import WIRES, Turn
from tests.e2e.wires import Call as Made

from .all_clients import LEGACY_CLIENTS
from .clients import Client
from .received import READERS
from .script import ARGUMENTS, OUTCOMES, Wish
from .upstreams import Upstream

OTHERS = [dialect for dialect in WIRES if dialect != "openai_chat"]
CASES = [pytest.param(client, id=client.name) for client in LEGACY_CLIENTS]


def script(seen: Seen) -> Turn:
    """One call after the other, then their results."""
    assert set(seen.tools) == {name for name, _, _ in TOOLS}
    names = list(ARGUMENTS)
    if len(seen.results) == len(names):
        return Turn(" | ".join(seen.results))
    name = names[len(seen.results)]
    return Turn("", (Made(f"call_{name}", name, ARGUMENTS[name]),))


def made(answers: list[Answer]) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for answer in answers for call in answer.calls]


@pytest.mark.parametrize("dialect", OTHERS)
@pytest.mark.parametrize("client", CASES)
def test_one_call_after_the_other(gateways: Gateways, client: Client, dialect: str) -> None:
    gateway = gateways.to(dialect)
    gateway.exchange.asked.clear()
    gateway.exchange.answer = upstream(dialect, script)
    answers = client.run(gateway.base_url, Wish())
    assert made(answers) == list(ARGUMENTS.items())
    assert [answer.stop for answer in answers] == ["function_call"] * len(ARGUMENTS) + ["stop"]
    assert answers[-1].text == " | ".join(OUTCOMES[name].text for name in ARGUMENTS)
    received = READERS[dialect](gateway.exchange.asked[-1].json())
    assert [(call.name, call.arguments) for call in received.calls] == list(ARGUMENTS.items())
    assert [result.call_id for result in received.results] == [call.id for call in received.calls]
    assert len({call.id for call in received.calls}) == len(ARGUMENTS)


@pytest.mark.parametrize("dialect", OTHERS)
@pytest.mark.parametrize("client", CASES)
def test_of_two_calls_at_once_the_client_sees_the_first(gateways: Gateways, client: Client, dialect: str) -> None:
    gateway, answering = gateways.to(dialect), Upstream(dialect)
    gateway.exchange.answer = answering
    first, last = client.run(gateway.base_url, Wish())
    expected = TURNS["parallel_calls"]
    assert (first.text, first.stop) == (expected.text, "function_call")
    assert [Call(None, call.name, call.arguments) for call in first.calls] == expected.calls[:1]
    assert last.text == OUTCOMES["get_weather"].text
    assert len(answering.received[-1].calls) == len(answering.received[-1].results) == 1


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("client", CASES)
def test_the_demo_makes_one_call(gateways: Gateways, client: Client, dialect: str) -> None:
    first, last = client.run(gateways.to(dialect).base_url, Wish(model="demo"))
    assert [call.name for call in first.calls] == ["get_weather"]
    assert OUTCOMES["get_weather"].text in last.text
