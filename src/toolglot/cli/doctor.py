"""`toolglot doctor`: check the setup and suggest fixes."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import asdict

from toolglot.cli.parameters import count_noun, upstream_key_option
from toolglot.cli.pretty_json import pretty_json
from toolglot.cli.progress import Progress
from toolglot.doctor.finding import Finding
from toolglot.lint.report import visible
from toolglot.routing import DEMO
from toolglot.server.startup import StartOptions
from toolglot.wire import json

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
COST = (
    "toolglot: --probe sends six small requests to each model, a few hundred tokens each time, "
    "and two more to one without native tools"
)


@click.command(short_help="Check the setup and suggest fixes.")
@click.option(
    "--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file (TOML or YAML)."
)
@click.option("--upstream", "upstreams", multiple=True, metavar="DIALECT=URL", help="Same as for `serve`. Repeatable.")
@upstream_key_option
@click.option("--port", type=click.IntRange(1, 65535), help="Port that `serve` will use.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--offline", is_flag=True, help="Contact no upstream and no local server.")
@click.option("--probe", is_flag=True, help="Test the capabilities of the models. This costs some tokens.")
@click.option("--model", "models", multiple=True, help="Probe this model. Repeatable.")
def doctor(
    file: Path | None,
    upstreams: tuple[str, ...],
    key_variables: tuple[str, ...],
    port: int | None,
    as_json: bool,
    offline: bool,
    probe: bool,
    models: tuple[str, ...],
) -> None:
    """Check the configuration, the keys, the port and every upstream, and suggest a fix for each problem.

    Without --probe, no request costs anything. The exit status is 1 if there are errors.
    """
    if models and not probe:
        raise click.UsageError("--model requires --probe")
    if probe and offline:
        raise click.UsageError("--probe contacts upstreams: it cannot be combined with --offline")
    from toolglot.doctor.examine import ExaminationPlan, examine

    start_options = StartOptions(
        file=file, upstreams=upstreams, key_variables=key_variables, port=port, demo_pace="none"
    )
    plan = ExaminationPlan(start_options=start_options, offline=offline, probe=probe, models=models)
    if probe:
        click.echo(COST, err=True)
    findings: list[Finding] = []

    async def run(progress: Progress) -> None:
        async for finding in examine(plan, os.environ):
            is_repeated = bool(findings) and findings[-1].advice == finding.advice
            findings.append(finding)
            if not as_json:
                with progress.hidden():
                    _print(finding, with_advice=not is_repeated)

    with Progress("probing models" if probe else "checking upstreams") as progress:
        asyncio.run(run(progress))
    failed = sum(finding.status == "fail" for finding in findings)
    if as_json:
        click.echo(pretty_json(json.encode({"ok": not failed, "findings": [asdict(finding) for finding in findings]})))
    else:
        warned = sum(finding.status == "warn" for finding in findings)
        counts = (count_noun(failed, "error"), count_noun(warned, "warning"), f"{len(findings) - failed - warned} ok")
        click.echo(", ".join(counts))
        if not failed and not offline:
            options = [word for upstream in upstreams for word in ("--upstream", upstream)]
            options += [word for name in key_variables for word in ("--upstream-key-env", name)]
            options += ["--config", str(file)] if file is not None else []
            click.echo(f"next: {suggest_step(findings, plan.usable_models, plan.small_models, options)}")
    sys.exit(1 if failed else 0)


def suggest_step(
    findings: Sequence[Finding], models: Sequence[str], small: Sequence[str], options: Sequence[str]
) -> str:
    """Return a next command that works: an agent if one is installed, otherwise the chat. If the windows of all models
    are too small for the agent, refer to the advice of their findings.
    """
    commands = (finding.command for finding in findings if finding.command is not None)
    model = next((name for name in models if name != DEMO), DEMO)
    if model == DEMO and small:
        return f"give {visible(small[0])} a larger context window (see above)"
    return shlex.join([*next(commands, ("toolglot", "chat")), *options, "--model", model])


def _print(finding: Finding, *, with_advice: bool) -> None:
    mark = f"{finding.status:<4}"
    if "NO_COLOR" not in os.environ:
        mark = click.style(mark, fg=COLOURS[finding.status])
    subject = f"{finding.subject}: " if finding.subject else ""
    click.echo(f"{mark}  {finding.check:<9} {visible(subject + finding.what)}")
    if finding.advice and with_advice:
        click.echo(f"{'':16}{visible(finding.advice)}")
