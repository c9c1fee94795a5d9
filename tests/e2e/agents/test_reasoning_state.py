"""Coding agents bring a model's reasoning state back to it, also where the gateway keeps nothing.

Gemini CLI drops thoughts and puts the tool's name before the ids of calls: what comes back stands on its calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.gateway import serving
from tests.e2e.loopback import Answer, Asked, Loopback, Reply, stream, whole
from tests.e2e.scripted import Seen, is_count
from tests.e2e.wires import WIRES
from tests.upstream.judges import Body, Claude, Gemini, Gpt, Vendor

from .agents import Agent, claude_code, codex, gemini_cli, run_agent
from .task import PROMPT, Task


class Reasoner(Gpt):
    """Asks for its reasoning alone, and not for the phase of a text, which Anthropic's clients have no field for."""

    def returned(self, body: Body) -> set[int]:
        return {number for number, (reasoning, _, _) in enumerate(self.issued) if reasoning in body["input"]}


CASES = [
    (gemini_cli("gemini-3-pro"), Gpt, "none"),
    (gemini_cli("gemini-3-pro"), Claude, "none"),
    (gemini_cli("gemini-3-pro"), Gpt, "state.sqlite3"),
    (claude_code("claude-sonnet-4-5"), Reasoner, "none"),
    (claude_code("claude-sonnet-4-5"), Gemini, "none"),
    (codex("gpt-5"), Claude, "none"),
]


def thinking(vendor: Vendor, task: Task, steps: list[tuple[int, set[int]]]) -> Answer:
    """The task's script, by a model that thinks. `steps` gets, for each request of the loop, how many answers had been
    given in it, and which of them came back with their state."""
    wire, loop = WIRES[vendor.dialect], list[int]()

    def answer(asked: Asked) -> Reply:
        if is_count(asked):
            return whole(b'{"input_tokens": 12}')
        body = asked.json()
        turn = task.script(Seen(wire.tools(body), wire.results(body), None, 1))
        if wire.results(body):
            returned = vendor.returned(body)
            steps.append((len(loop), {place for place, number in enumerate(loop) if number in returned}))
        if turn.calls:
            loop.append(len(vendor.issued))
        streams = bool(body.get("stream")) or "stream" in asked.path
        written = vendor.reply(body, turn, stream=streams)
        return stream(written) if streams else whole(written)

    return answer


@pytest.mark.parametrize(("agent", "vendor", "store"), CASES, ids=[f"{a.name}-{v.__name__}-{s}" for a, v, s in CASES])
def test_an_agent_brings_reasoning_state_back(
    loopback: Loopback, task: Task, tmp_path: Path, agent: Agent, vendor: type[Vendor], store: str
) -> None:
    model, steps = vendor(), list[tuple[int, set[int]]]()
    model.minds_ids = False
    folder = tmp_path / "gateway"
    folder.mkdir()
    with loopback.serving(thinking(model, task, steps)) as exchange:
        upstream = ("--upstream", f"{model.dialect}={exchange.base_url}", "--store", store)
        with serving(folder, *upstream) as base_url:
            outcome = run_agent(agent, base_url, PROMPT, task.home, task.work)
    assert all(word in outcome.output for word in task.words.values()), outcome
    assert steps, outcome
    assert [returned for _, returned in steps] == [set(range(count)) for count, _ in steps]
