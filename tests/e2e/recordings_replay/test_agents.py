"""Agents that were recorded once are answered from their recordings: the same bytes, without a model."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from shutil import rmtree

import pytest

from tests.e2e.agents.agents import Agent, Outcome, claude_code, codex, run_agent
from tests.e2e.gateway import serving
from tests.e2e.mcp.strict import refusals
from toolglot.dialects import DIALECTS
from toolglot.recordings.format import SUFFIX
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.rerun.run import rerun
from toolglot.translate import ExchangeCore

PROMPT = "Show hello.txt with the shell and report."
WORD = "a word that stands in the file alone"
ELSEWHERE = {
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro",
}
"""Upstreams that an agent's recorded requests could go to instead."""
RECORDED = [(claude_code("claude-sonnet-4-5"), "openai_responses"), (codex("gpt-5"), "anthropic")]


def run_once(agent: Agent, folder: Path, *options: str) -> tuple[Outcome, list[Recording]]:
    """One run of an agent in a home as new, and what the gateway has recorded of it."""
    gateway, recordings = folder / "gateway", folder / "gateway" / "recordings"
    home, work = folder / "home", folder / "work"
    for each in (home, work, gateway):
        rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    (work / "hello.txt").write_text(f"{WORD}\n")
    with serving(gateway, "--record", str(recordings), "--store", ":memory:", *options) as base_url:
        outcome = run_agent(agent, base_url, PROMPT, home, work)
    return outcome, [read_recording(file.read_bytes()) for file in sorted(recordings.glob(f"*{SUFFIX}"))]


def answers(recordings: list[Recording]) -> Counter[tuple[int, bytes]]:
    return Counter((0 if each.response is None else each.response.status, each.body) for each in recordings)


@pytest.mark.parametrize(
    ("agent", "upstream"),
    [pytest.param(agent, upstream, id=f"{agent.name}-{upstream}") for agent, upstream in RECORDED],
)
def test_a_recorded_agent_gets_the_same_bytes_from_its_recordings(tmp_path: Path, agent: Agent, upstream: str) -> None:
    first, recorded = run_once(agent, tmp_path, "--demo-dialect", upstream, "--demo-pace", "none")
    assert WORD in first.output, first
    kept = tmp_path / "kept"
    (tmp_path / "gateway" / "recordings").rename(kept)
    again, replayed = run_once(agent, tmp_path, "--upstream", f"{upstream}=replay:{kept}")
    assert WORD in again.output, (again, [each.body for each in replayed])
    assert answers(replayed) == answers(recorded)
    for recording in recorded:
        assert not asyncio.run(rerun(recording)).comparison.differs
        for client in DIALECTS:
            assert asyncio.run(rerun(recording, client)).comparison.breaches == []
        for target, model in ELSEWHERE.items():
            if target != recording.head.client:
                exchange = ExchangeCore(recording.head.client, target, model=model)
                sent = json.loads(exchange.request(recording.request.data))
                assert refusals(target, sent) == [], (target, recording.head.id)
