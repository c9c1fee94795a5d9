"""`toolglot launch` starts the real agents with a gateway of their own, onto an upstream of another dialect."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.loopback import Loopback
from tests.e2e.scripted import upstream

from .agents import put_on_path, run
from .task import PROMPT, Task

ARGUMENTS = {
    "claude": ["-p", PROMPT, "--allowedTools", "Bash Read"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT],
    "gemini": ["--approval-mode", "yolo", "--skip-trust", "-p", PROMPT],
}
UPSTREAMS = [("claude", "openai_chat"), ("codex", "anthropic"), ("gemini", "openai_responses")]


@pytest.mark.parametrize(("name", "dialect"), UPSTREAMS)
def test_a_launched_agent_completes_a_loop(
    loopback: Loopback, task: Task, tmp_path: Path, name: str, dialect: str
) -> None:
    put_on_path(tmp_path / "bin")
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    with loopback.serving(upstream(dialect, task.script)) as exchange:
        launch = [sys.executable, "-m", "toolglot", "launch", name, "--upstream", f"{dialect}={exchange.base_url}"]
        outcome = run([*launch, "--", *ARGUMENTS[name]], environment, task.home, task.work)
        task.check(outcome, exchange.asked)
