"""Coding agents complete a tool loop through the gateway, whatever dialect the upstream has."""

from __future__ import annotations

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import Loopback
from tests.e2e.scripted import is_count, upstream
from tests.e2e.sdk_types import check
from tests.e2e.wires import WIRES

from .agents import AGENTS, Agent, claude_code, run_agent
from .task import PROMPT, Task

SAMPLING = ("$.temperature:", "$.top_p:", "$.top_k:")
"""Anthropic's SDK knows them no more, but its older models do, and so may a model of whom nothing is known."""
EXTENSIONS = (
    ".cache_control: unknown to ChatCompletionContentPartTextParam",
    ".extra_content: unknown to ChatCompletionMessageFunctionToolCallParam",
)
"""Servers that offer Claude and Gemini models over OpenAI's API read these members, and its SDK does not know them."""


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
            assert [line for line in complaints if not (line.startswith(SAMPLING) or line.endswith(EXTENSIONS))] == []


@pytest.mark.parametrize(
    "ids",
    [("call_2", "call_2_7", "call_3"), ("call_2_7", "call_2", "call_3"), ("call_1", "call_2", "call_2_123")],
    ids=["in one batch", "in one batch, the number first", "in a later turn"],
)
@pytest.mark.parametrize("dialect", [name for name in WIRES if name != "anthropic"])
def test_claude_code_keeps_calls_apart_whose_ids_differ_in_a_number(
    gateways: Gateways, task: Task, ids: tuple[str, str, str], dialect: str
) -> None:
    """It takes the result of `call_2_7` for a part of that of `call_2`, and loses it, if a conversation has both."""
    gateway = gateways.to(dialect)
    gateway.play(task.script_with(*ids))
    outcome = run_agent(claude_code("claude-sonnet-4-5"), gateway.base_url, PROMPT, task.home, task.work)
    task.check(outcome, gateway.exchange.asked)
