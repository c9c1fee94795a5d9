"""Coding agents complete a tool loop through the gateway, whatever dialect the upstream has."""

from __future__ import annotations

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import Loopback
from tests.e2e.scripted import is_count, upstream
from tests.e2e.sdk_types import check
from tests.e2e.wires import WIRES

from .agents import AGENTS, Agent, run_agent
from .task import PROMPT, Task

SAMPLING = ("$.temperature:", "$.top_p:", "$.top_k:")
"""Anthropic's SDK knows them no more, but its older models do, and so may a model of whom nothing is known."""
CACHE_CONTROL = ".cache_control: unknown to ChatCompletionContentPartTextParam"
"""Servers that offer Claude models over OpenAI's API read it, and its SDK does not know it."""


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_completes_a_loop_on_an_upstream_of_its_own_dialect(
    loopback: Loopback, task: Task, agent: Agent
) -> None:
    """Without the gateway, so that a failure of an agent or of the script can be told from one of the gateway."""
    with loopback.serving(upstream(agent.dialect, task.script)) as exchange:
        task.check(run_agent(agent, exchange.base_url, PROMPT, task.home, task.work), exchange.asked)


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_completes_a_loop_through_the_gateway(
    gateways: Gateways, task: Task, agent: Agent, dialect: str
) -> None:
    gateway = gateways.to(dialect)
    gateway.play(task.script)
    task.check(run_agent(agent, gateway.base_url, PROMPT, task.home, task.work), gateway.exchange.asked)
    if agent.dialect != dialect:  # else the agent's own bytes are passed on
        for asked in gateway.exchange.asked:
            complaints = [] if is_count(asked) else check(dialect, asked.body)
            assert [line for line in complaints if not line.startswith(SAMPLING) and CACHE_CONTROL not in line] == []
