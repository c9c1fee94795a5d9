"""Find the coding agents that `toolglot launch` supports, and check that they start.

A program on the path may still be broken: a partial update, a missing interpreter, a Node.js version that is too old.
So each one runs with `--version`, which needs no network and no account.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from toolglot.cli.agents import AGENTS, Agent
from toolglot.doctor.finding import Finding, ok, warn
from toolglot.export.visible_text import one_line

VERSION_TIMEOUT = 10.0
"""Seconds for `--version`: a cold start of a Node.js program on a slow disk takes a few."""
MAX_REASON_CHARS = 200


class VersionCheck(Struct, frozen=True):
    """The result of `--version`. `problem` is None if the agent starts."""

    problem: str | None = None
    advice: str | None = None


async def find_agents(environ: Mapping[str, str]) -> list[Finding]:
    """Find the installed agents, and check all of them at once."""
    path = environ.get("PATH")
    found = [(agent, where) for agent in AGENTS.values() if (where := shutil.which(agent.command, path=path))]
    checks = await asyncio.gather(*(check_version(agent, where, environ) for agent, where in found))
    if not found:
        known = ", ".join(agent.title for agent in AGENTS.values())
        return [ok("agent", f"no agent that `toolglot launch` supports is installed: {known}")]
    return [_agent_finding(agent, where, check) for (agent, where), check in zip(found, checks, strict=True)]


def _agent_finding(agent: Agent, where: str, check: VersionCheck) -> Finding:
    if check.problem is not None:
        return warn("agent", f"{agent.title} {check.problem}", check.advice, where)
    usable = ok("agent", f"{agent.title}: `toolglot launch {agent.name}`", where)
    return replace(usable, command=("toolglot", "launch", agent.name))


async def check_version(
    agent: Agent, program: str, environ: Mapping[str, str], timeout: float = VERSION_TIMEOUT
) -> VersionCheck:
    """Run `program --version`. It gets no input. After the timeout, it is terminated with its children."""
    again = f"install it again: {agent.install}"
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--version",
            env=dict(environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return VersionCheck(f"cannot be started: {error.strerror or error}", again)
    try:
        async with asyncio.timeout(timeout):
            output, errors = await process.communicate()
    except TimeoutError:
        return VersionCheck(
            f"does not start: `{agent.command} --version` gave no answer within {timeout:g} s",
            f"run `{agent.command} --version` yourself, or {again}",
        )
    finally:
        await _end(process)
    if process.returncode == 0:
        return VersionCheck()
    reason = _reason(errors) or _reason(output) or f"exit status {process.returncode}"
    return VersionCheck(f"does not start: {reason}", f"update what it needs (such as Node.js), or {again}")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _reason(output: bytes) -> str:
    """Return the line of an output that names the error, or its first line."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    named = (line for line in lines if "error" in line.lower() or "require" in line.lower())
    return one_line(next(named, lines[0] if lines else ""))[:MAX_REASON_CHARS]
