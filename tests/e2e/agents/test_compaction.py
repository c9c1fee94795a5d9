"""Agents recognise a full context window when an upstream of another vendor tells of it in its own words."""

from __future__ import annotations

import json

from tests.e2e.gateway import Behind, Gateways
from tests.e2e.loopback import Asked, Reply
from tests.e2e.scripted import is_count

from .agents import claude_code, codex, run_agent
from .task import PROMPT, Task

OVERFLOW = {
    "object": "error",
    "message": "The input (261709 tokens) is longer than the model's context length (40960 tokens).",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
"""As SGLang says it."""


def overflow_once(gateway: Behind) -> list[Asked]:
    """The upstream refuses the first request that brings results of tools. Returns all requests, as they come."""
    scripted, seen = gateway.exchange.answer, list[Asked]()

    def answer(asked: Asked) -> Reply:
        if is_count(asked):
            return scripted(asked)
        was_refused = any(has_results(one) for one in seen)
        seen.append(asked)
        if has_results(asked) and not was_refused:
            return Reply(400, json.dumps(OVERFLOW).encode(), {"content-type": "application/json"})
        return scripted(asked)

    gateway.exchange.answer = answer
    return seen


def has_results(asked: Asked) -> bool:
    return any(message["role"] == "tool" for message in asked.json()["messages"])


def test_claude_code_compacts_and_goes_on(gateways: Gateways, task: Task) -> None:
    gateway = gateways.to("openai_chat")
    gateway.play(task.script)
    seen = overflow_once(gateway)
    agent = claude_code("claude-sonnet-4-5")
    outcome = run_agent(agent, gateway.base_url, PROMPT, task.home, task.work)
    assert all(word in outcome.output for word in task.words.values()), outcome
    refused = next(number for number, asked in enumerate(seen) if has_results(asked))
    last = seen[refused + 1].json()["messages"][-1]
    assert "summary" in json.dumps(last).lower(), last
    assert len(seen[refused + 2].body) < len(seen[-1].body)


def test_codex_knows_that_its_context_window_is_full(gateways: Gateways, task: Task) -> None:
    gateway = gateways.to("openai_chat")
    gateway.play(task.script)
    seen = overflow_once(gateway)
    outcome = run_agent(codex("gpt-5"), gateway.base_url, PROMPT, task.home, task.work)
    # With this it compacts before its next turn; it would repeat the request on any other error.
    assert "ran out of room in the model's context window" in outcome.complaints, outcome
    assert len(seen) == 2
