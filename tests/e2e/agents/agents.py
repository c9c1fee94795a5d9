"""Coding agents as a user starts them: one command, settings in a home of their own, an answer on standard output.

Nothing of the machine's environment reaches them, and a proxy that is not there keeps them from the network.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.js_ways import NODE

MODULES = Path(__file__).parent / "node_modules"
TIME_LIMIT = 60.0
NO_NETWORK = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}


@dataclass(frozen=True)
class Agent:
    """`arguments` take the prompt; `environment` and `files` (in the home folder) take the base URL, without `/v1`."""

    name: str
    dialect: str
    script: str
    arguments: Callable[[str], list[str]]
    environment: Callable[[str], Mapping[str, str]]
    files: Callable[[str], Mapping[str, str]] = field(default=lambda base_url: {})

    @property
    def installed(self) -> bool:
        return (MODULES / self.script).exists()


@dataclass(frozen=True)
class Outcome:
    status: int | None
    """None: the time was up."""
    output: str
    complaints: str


def run_agent(agent: Agent, base_url: str, prompt: str, home: Path, work: Path) -> Outcome:
    for name, text in agent.files(base_url).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    command = [str(NODE), str(MODULES / agent.script), *agent.arguments(prompt)]
    return run(command, agent.environment(base_url), home, work)


def run(command: list[str], environment: Mapping[str, str], home: Path, work: Path) -> Outcome:
    """Run a command to its end with these variables and hardly any other."""
    path = f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with subprocess.Popen(
        command,
        cwd=work,
        env={"HOME": str(home), "PATH": path, **NO_NETWORK, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            output, complaints = process.communicate(timeout=TIME_LIMIT)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, complaints = process.communicate()
            status = None
    return Outcome(status, output, complaints)


# ── the agents ───────────────────────────────────────────────────────────────────────────────────────────────────────

CODEX_SETTINGS = """\
model = "{model}"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.gateway]
name = "gateway"
base_url = "{base_url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""

GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def claude_code(model: str, tools: str = "Bash Read") -> Agent:
    """`tools` are those that it may use without asking."""
    return Agent(
        name=f"claude-code-{model}",
        dialect="anthropic",
        script="@anthropic-ai/claude-code/cli-wrapper.cjs",
        arguments=lambda prompt: ["-p", prompt, "--allowedTools", tools, "--output-format", "text"],
        environment=lambda base_url: {
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_AUTH_TOKEN": "dummy",
            "ANTHROPIC_MODEL": model,
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )


def codex(model: str) -> Agent:
    return Agent(
        name=f"codex-{model}",
        dialect="openai_responses",
        script="@openai/codex/bin/codex.js",
        arguments=lambda prompt: ["exec", "--skip-git-repo-check", prompt],
        environment=lambda base_url: {"GATEWAY_KEY": "dummy"},
        files=lambda base_url: {".codex/config.toml": CODEX_SETTINGS.format(model=model, base_url=base_url)},
    )


def gemini_cli(model: str | None = None) -> Agent:
    """Without a model it takes its own."""
    chosen = ["-m", model] if model else []
    return Agent(
        name=f"gemini-cli-{model}" if model else "gemini-cli",
        dialect="gemini",
        script="@google/gemini-cli/bundle/gemini.js",
        arguments=lambda prompt: ["--approval-mode", "yolo", *chosen, "-p", prompt],
        environment=lambda base_url: {
            "GEMINI_API_KEY": "dummy",
            "GOOGLE_GEMINI_BASE_URL": base_url,
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files=lambda base_url: {".gemini/settings.json": json.dumps(GEMINI_SETTINGS)},
    )


AGENTS = [
    claude_code("claude-sonnet-4-5"),
    # A model that Claude Code does not know gets system messages between the others.
    claude_code("gpt-5"),
    codex("gpt-5"),
    # For this one Codex puts its tools into an input item, and the main one takes JavaScript instead of JSON.
    codex("gpt-6.1-sol"),
    gemini_cli(),
]

COMMANDS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli"}
"""What `toolglot launch` calls them, and how their names begin here."""


def put_on_path(folder: Path) -> None:
    """The agents under the names that `launch` looks for."""
    folder.mkdir()
    for name, agent in COMMANDS.items():
        script = next(each.script for each in AGENTS if each.name.startswith(agent))
        (folder / name).write_text(f'#!/bin/sh\nexec "{NODE}" "{MODULES / script}" "$@"\n')
        (folder / name).chmod(0o755)
