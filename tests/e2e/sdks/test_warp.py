"""Whole tool loops over a Warp upstream: every official SDK, in every manner, in every way to tell the history.

The upstream is an agent that checks what it is sent; under `replay`, that its own tasks come back byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.answers import Call
from tests.e2e.gateway import configured_gateway
from tests.upstream.bad_server import BadServer, Peer, expect
from tests.warp_server.agent import TOKEN, Agent, Heard, History, Turn
from tests.warp_server.scripts import Called
from tests.warp_server.server import answering

from .all_clients import CLIENTS
from .clients import Client
from .script import ARGUMENTS, OUTCOMES, Wish

ROUNDS = (("get_weather", "get_time"), ("refresh",))


def script(now: Heard) -> Turn:
    """Two calls at once, one more, and a report."""
    assert set(now.tools) == set(OUTCOMES)
    if not now.results:
        return Turn("Let me look.", _calls(0))
    return Turn("", _calls(1)) if len(now.results) == 2 else Turn(" | ".join(now.results))


def _calls(number: int) -> tuple[Called, ...]:
    return tuple(Called(f"call-{number}-{name}", name, ARGUMENTS[name]) for name in ROUNDS[number])


class Behind:
    """A gateway in front of the agent of the moment."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.agent = Agent(script, history)
        self.base_url = ""
        self.server = BadServer([expect(), self._answer])

    async def _answer(self, peer: Peer) -> None:
        await answering(self.agent)(peer)


@pytest.fixture(scope="module", params=["replay", "native", "text"])
def behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    made = Behind(request.param)
    folder: Path = tmp_path_factory.mktemp(f"warp-{made.history}")
    with made.server:
        fields = f'dialect = "warp"\nbase_url = "{made.server.url}"\nkey = "{TOKEN}"\nwarp_history = "{made.history}"'
        with configured_gateway(folder, fields) as made.base_url:
            yield made


@pytest.mark.parametrize("client", [pytest.param(client, id=client.name) for client in CLIENTS])
def test_a_loop_of_three_turns(behind: Behind, client: Client) -> None:
    behind.agent = agent = Agent(script, behind.history)
    answers = client.run(behind.base_url, Wish())
    assert [[Call(None, call.name, call.arguments or {}) for call in answer.calls] for answer in answers] == [
        [Call(None, name, ARGUMENTS[name]) for name in names] for names in (*ROUNDS, ())
    ]
    assert answers[0].text == "Let me look."
    quoted = answers[2].text.split(" | ")
    assert len(quoted) == len(OUTCOMES)
    for said, outcome in zip(quoted, OUTCOMES.values(), strict=True):
        assert outcome.text in said
    assert [bool(heard.conversation) for heard in agent.heard] == [False, *[behind.history == "replay"] * 2]
