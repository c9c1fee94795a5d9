"""Tools for a model that has none: the demo writes its calls as text, and every official SDK sees native ones.

The wish has two steps, so that each loop has three turns: two calls at once, one more, and a report. What the demo with
native tools makes of the same wish is what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle, islice

import pytest

from tests.e2e.answers import Answer, Call
from tests.e2e.gateway import Gateways
from tests.e2e.recordings import STOPS
from tests.e2e.wires import WIRES
from toolglot.textcalls.prompts.render import PROMPTS

from .all_clients import CLIENTS
from .clients import Client
from .script import OUTCOMES, Wish

PROMPT = "What is the weather in Zürich, and what time is it there? Then refresh the data."
ROUNDS: tuple[list[str], ...] = (["get_weather", "get_time"], ["refresh"], [])
KINDS = (
    "hermes_json",
    "deepchat",
    "anthropic_xml",
    "cline_xml",
    "qwen3_coder",
    "markdown_json",
    "pythonic",
    "react",
)
"""Formats of every kind."""
APIS = {f"python-{api}" for api in ("chat", "responses", "messages", "chats")}


def formats_of(client: Client, number: int) -> Iterator[str]:
    """Every format, for one client of each dialect; every kind, for the same clients in one piece; else two kinds."""
    api, _, manner = client.name.rpartition("-")
    if api not in APIS:
        return islice(cycle(KINDS), number % len(KINDS), number % len(KINDS) + 2)
    return iter(PROMPTS if manner == "streamed" else KINDS)


LOOPS = [
    pytest.param(client, text_format, dialect, id=f"{client.name}-{text_format}")
    for number, client in enumerate(CLIENTS)
    # The dialects of the upstream take turns: to them a call is text like any other.
    for text_format, dialect in zip(formats_of(client, number), cycle(WIRES), strict=False)
]


@pytest.fixture(scope="module")
def native(gateways: Gateways) -> Callable[[Client], list[Answer]]:
    """What a client gets from the demo with native tools."""

    @cache
    def run(client: Client) -> list[Answer]:
        return client.run(gateways.to(client.dialect).base_url, Wish(model="demo", prompt=PROMPT))

    return run


@pytest.mark.parametrize(("client", "text_format", "dialect"), LOOPS)
def test_a_loop_of_three_turns(
    gateways: Gateways, native: Callable[[Client], list[Answer]], client: Client, text_format: str, dialect: str
) -> None:
    several = PROMPTS[text_format].several
    answers = client.run(gateways.to(dialect).base_url, Wish(model=f"demo-text-{text_format}", prompt=PROMPT))
    for answer, expected, names in zip(answers, native(client), ROUNDS, strict=True):
        called = expected.calls if several else expected.calls[:1]
        assert [call.name for call in called] == (names if several else names[:1])
        assert [Call(None, call.name, call.arguments) for call in answer.calls] == [
            Call(None, call.name, call.arguments) for call in called
        ]
        assert answer.stop == STOPS["tool_calls" if names else "end"][client.dialect] == expected.stop
        if names:
            assert answer.text == expected.text
        if client.usage or not names:
            assert answer.input_tokens > 0
            assert answer.output_tokens > 0
    calls = [call for answer in answers for call in answer.calls]
    ids = {call.id for call in calls}
    assert None not in ids
    assert len(ids) == len(calls)
    assert all(OUTCOMES[call.name].text in answers[-1].text for call in calls)
