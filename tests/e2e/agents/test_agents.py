"""Coding agents complete a tool loop through the gateway, whatever dialect the upstream has.

An agent's own word proves nothing, nor does its exit status. Two files hold words that nobody else knows; when the
agent's last output has both, its model asked for two tools at once, they ran, and the results came back to the model.
Then it looks at a picture, which comes back in a result too.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from secrets import token_hex

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import Asked, Loopback
from tests.e2e.scripted import Script, is_count, upstream
from tests.e2e.sdk_types import check
from tests.e2e.wires import WIRES

from .agents import AGENTS, Agent, run_agent
from .reader import reader

SAMPLING = ("$.temperature:", "$.top_p:", "$.top_k:")
"""Anthropic's SDK knows them no more, but its older models do, and so may a model of whom nothing is known."""
PROMPT = "Show secret.txt with the shell and read hello.txt, then look at square.png and report."


def square(side: int) -> bytes:
    """A grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Task:
    """A folder to work in, and the words that only its files have."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.words = {"secret.txt": token_hex(), "hello.txt": token_hex()}
        for name, word in self.words.items():
            (self.work / name).write_text(f"{word}\n")
        (self.work / "square.png").write_bytes(square(16))

    @property
    def script(self) -> Script:
        return reader(self.work, shown="secret.txt", read="hello.txt", viewed="square.png")

    def check(self, agent: Agent, base_url: str, asked: list[Asked]) -> None:
        outcome = run_agent(agent, base_url, PROMPT, self.home, self.work)
        for word in self.words.values():
            assert word in outcome.output, outcome
        assert "and showed 1 picture." in outcome.output, outcome
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
    if agent.dialect != dialect:  # else the agent's own bytes are passed on
        for asked in gateway.exchange.asked:
            complaints = [] if is_count(asked) else check(dialect, asked.body)
            assert [line for line in complaints if not line.startswith(SAMPLING)] == []
