"""Agents ask again when an upstream breaks off inside a call, and lose nothing by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import Asked, Reply

from .agents import Agent, claude_code, codex, gemini_cli, run_agent
from .task import PROMPT, Task

AGENTS = [claude_code("claude-sonnet-4-5"), codex("gpt-5"), gemini_cli()]


PLACES = {"first": b"", "after results": b'"role":"tool"'}
"""Turns that break off, by what their requests have in them."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_asks_again_when_the_upstream_breaks_off_inside_a_call(
    gateways: Gateways, task: Task, agent: Agent, place: str
) -> None:
    gateway = gateways.to("openai_chat")
    gateway.play(task.script)
    scripted, broken = gateway.exchange.answer, list[bytes]()

    def answer(asked: Asked) -> Reply:
        reply = scripted(asked)
        at = reply.body.find(b'"arguments": "')
        if broken or at < 0 or not asked.json().get("stream") or PLACES[place] not in asked.body:
            return reply
        broken.append(asked.body)
        return replace(reply, body=reply.body[: reply.body.index(b"\n\n", at) + 2], breaks=True)

    gateway.exchange.answer = answer
    outcome = run_agent(agent, gateway.base_url, PROMPT, task.home, task.work)
    assert broken
    task.check(outcome, gateway.exchange.asked)
