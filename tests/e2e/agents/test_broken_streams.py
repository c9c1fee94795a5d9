"""Agents ask again when an upstream fails inside its answer, and lose nothing by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.e2e.gateway import Behind, Gateways
from tests.e2e.loopback import Asked, Reply

from .agents import Agent, claude_code, codex, gemini_cli, run_agent
from .task import PROMPT, Task

AGENTS = [claude_code("claude-sonnet-4-5"), codex("gpt-5"), gemini_cli()]


OVERLOADED = (
    b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
)
MALFORMED = b'data: {"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]}\n\n'
ARGUMENTS = b'"arguments": "'
PLACES = {"first": b"", "after results": b'"role":"tool"'}
"""Turns that break off, by what their requests have in them."""


def break_off(gateway: Behind, place: Callable[[bytes], int], has: bytes = b"") -> list[bytes]:
    """The first stream with a call, in answer to a request that has this in it, ends behind the event at this place.
    Returns that request, once it has come."""
    scripted, broken = gateway.exchange.answer, list[bytes]()

    def answer(asked: Asked) -> Reply:
        reply = scripted(asked)
        at = place(reply.body)
        if broken or at < 0 or not asked.json().get("stream") or has not in asked.body:
            return reply
        broken.append(asked.body)
        return replace(reply, body=reply.body[: reply.body.index(b"\n\n", at) + 2], breaks=True)

    gateway.exchange.answer = answer
    return broken


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
def test_an_agent_asks_again_when_the_upstream_breaks_off_inside_a_call(
    gateways: Gateways, task: Task, agent: Agent, place: str
) -> None:
    gateway = gateways.to("openai_chat")
    gateway.play(task.script)
    broken = break_off(gateway, lambda body: body.find(ARGUMENTS), PLACES[place])
    outcome = run_agent(agent, gateway.base_url, PROMPT, task.home, task.work)
    assert broken
    task.check(outcome, gateway.exchange.asked)


def test_gemini_cli_runs_a_call_once_when_the_upstream_breaks_off_inside_the_next(
    gateways: Gateways, task: Task
) -> None:
    """It remembers the calls of a stream that failed: another result of the first would come before the picture."""
    gateway = gateways.to("openai_chat")
    gateway.play(task.script)
    broken = break_off(gateway, lambda body: body.rfind(ARGUMENTS))
    outcome = run_agent(gemini_cli(), gateway.base_url, PROMPT, task.home, task.work)
    assert broken
    task.check(outcome, gateway.exchange.asked)


def test_codex_asks_again_when_the_upstream_says_in_its_stream_that_it_is_overloaded(
    gateways: Gateways, task: Task
) -> None:
    gateway = gateways.to("anthropic")
    gateway.play(task.script)
    scripted, told = gateway.exchange.answer, list[Asked]()

    def answer(asked: Asked) -> Reply:
        reply = scripted(asked)
        if told or b"text_delta" not in reply.body:
            return reply
        told.append(asked)
        end = reply.body.index(b"\n\n", reply.body.index(b"text_delta")) + 2
        return replace(reply, body=reply.body[:end] + OVERLOADED)

    gateway.exchange.answer = answer
    outcome = run_agent(codex("gpt-5"), gateway.base_url, PROMPT, task.home, task.work)
    assert told
    task.check(outcome, gateway.exchange.asked)


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS[:2]])
def test_an_agent_asks_again_when_gemini_could_not_read_a_call(gateways: Gateways, task: Task, agent: Agent) -> None:
    """The text before the call must not look like the last answer."""
    gateway = gateways.to("gemini")
    gateway.play(task.script)
    scripted, told = gateway.exchange.answer, list[Asked]()

    def answer(asked: Asked) -> Reply:
        reply = scripted(asked)
        if told or b"functionCall" not in reply.body:
            return reply
        told.append(asked)
        text, *_ = reply.body.split(b"\n\n")
        return replace(reply, body=text + b"\n\n" + MALFORMED)

    gateway.exchange.answer = answer
    outcome = run_agent(agent, gateway.base_url, PROMPT, task.home, task.work)
    assert told
    task.check(outcome, gateway.exchange.asked)
