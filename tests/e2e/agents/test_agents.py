"""Coding agents complete a tool loop through the gateway, whatever dialect the upstream has.

An agent's own word proves nothing, nor does its exit status. Two files hold words that nobody else knows; when the
agent's last output has both, its model asked for two tools at once, they ran, and the results came back to the model.
"""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import Asked, Loopback
from tests.e2e.scripted import WIRES, Script, upstream

from .agents import AGENTS, Agent, run_agent
from .reader import reader

PROMPT = "Show secret.txt with the shell and read hello.txt, then report what they say."


class Task:
    """A folder to work in, and the words that only its files have."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.words = {"secret.txt": token_hex(), "hello.txt": token_hex()}
        for name, word in self.words.items():
            (self.work / name).write_text(f"{word}\n")

    @property
    def script(self) -> Script:
        return reader(self.work, shown="secret.txt", read="hello.txt")

    def check(self, agent: Agent, base_url: str, asked: list[Asked]) -> None:
        outcome = run_agent(agent, base_url, PROMPT, self.home, self.work)
        for word in self.words.values():
            assert word in outcome.output, outcome
        assert not any(word.encode() in asked[0].body for word in self.words.values())
        assert all(word.encode() in asked[-1].body for word in self.words.values())


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_completes_a_loop_on_an_upstream_of_its_own_dialect(
    loopback: Loopback, task: Task, agent: Agent
) -> None:
    """Without the gateway, so that a failure of an agent or of the script can be told from one of the gateway."""
    with loopback.serving(upstream(agent.dialect, task.script)) as exchange:
        task.check(agent, exchange.base_url, exchange.asked)


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_completes_a_loop_through_the_gateway(
    gateways: Gateways, task: Task, agent: Agent, dialect: str
) -> None:
    gateway = gateways.to(dialect)
    gateway.play(task.script)
    task.check(agent, gateway.base_url, gateway.exchange.asked)
