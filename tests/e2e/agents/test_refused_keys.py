"""Agents report a key that the upstream refuses at once: a retry would get the same answer.

Codex retries every status five times, whatever the headers say.
"""

from __future__ import annotations

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import Reply
from tests.e2e.test_faults import KINDS

from .agents import Agent, claude_code, gemini_cli, run_agent
from .task import PROMPT, Task

AGENTS = [claude_code("claude-sonnet-4-5"), gemini_cli("gemini-2.5-pro")]


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_reports_a_refused_key_after_one_request(gateways: Gateways, task: Task, agent: Agent) -> None:
    gateway = gateways.to("openai_chat")
    status, body = KINDS["authentication"]["openai"]
    gateway.play(task.script)
    gateway.exchange.answer = lambda _: Reply(status, body, {"content-type": "application/json"})
    outcome = run_agent(agent, gateway.base_url, PROMPT, task.home, task.work)
    assert outcome.status
    assert "says: no such key" in outcome.output + outcome.complaints
    assert len(gateway.exchange.asked) == 1
