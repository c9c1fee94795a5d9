"""`toolglot launch`: a coding agent against the gateway, with nothing of the user's files touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from toolglot.cli.agents import AGENTS, Agent, prepared
from toolglot.wire import json

DEFAULT_URL = "http://127.0.0.1:4141"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", metavar="AGENT", type=click.Choice(list(AGENTS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--model", help="The model that the agent is to ask for.")
@click.option("--url", help=f"A gateway that runs already. Default: the one at {DEFAULT_URL}, else an own one.")
@click.option("--key-env", metavar="NAME", help="The variable with the gateway's key.")
@click.option("--config", "file", type=click.Path(exists=True, dir_okay=False), help="The file for an own gateway.")
@click.option("--show", is_flag=True, help="Print the command and its environment, and start nothing.")
def launch(
    name: str,
    arguments: tuple[str, ...],
    model: str | None,
    url: str | None,
    key_env: str | None,
    file: str | None,
    show: bool,
) -> None:
    """Start AGENT against the gateway; what follows `--` goes to the agent.

    No file of yours is changed: the agent is told by its environment and its arguments alone. If no gateway runs, one
    is started for as long as the agent runs.
    """
    agent = AGENTS[name]
    if key_env is not None and not os.environ.get(key_env):
        raise click.UsageError(f"--key-env: the environment has no {key_env}")
    if agent.name == "opencode" and model is None:
        raise click.UsageError("opencode has to be told a model: --model NAME")
    key = os.environ[key_env] if key_env is not None else "toolglot"
    if show:
        _show(agent, *prepared(agent, url or DEFAULT_URL, "KEY", model), arguments)
        return
    command = shutil.which(agent.command)
    if command is None:
        click.echo(f"toolglot: there is no `{agent.command}` on the PATH: {agent.install}", err=True)
        sys.exit(127)
    with _gateway(url, file, key_env) as address, tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        environment, told = prepared(agent, address, key, model)
        if agent.settings_variable is not None:
            settings = Path(folder) / "settings.json"
            settings.write_bytes(json.encode(agent.settings))
            environment[agent.settings_variable] = str(settings)
        inherited = {name: value for name, value in os.environ.items() if name not in agent.unset}
        done = subprocess.run([command, *told, *arguments], env={**inherited, **environment}, check=False)
    sys.exit(done.returncode)


def _show(agent: Agent, environment: dict[str, str], told: list[str], arguments: tuple[str, ...]) -> None:
    import shlex

    for name in agent.unset:
        click.echo(f"unset {name}")
    for name, value in environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    if agent.settings_variable is not None:
        click.echo(f"# {agent.settings_variable} names a file with {json.encode_text(agent.settings)}")
    click.echo(shlex.join([agent.command, *told, *arguments]))


@contextmanager
def _gateway(url: str | None, file: str | None, key_env: str | None) -> Iterator[str]:
    """The address of a gateway that answers: the one that is named, the usual one, or one of our own."""
    if url is not None or (file is None and is_toolglot(DEFAULT_URL)):
        address = (url or DEFAULT_URL).rstrip("/").removesuffix("/v1")
        if not is_toolglot(address):
            # An agent that cannot reach the gateway may quietly spend the user's own account instead.
            click.echo(f"toolglot: no gateway answers at {address}", err=True)
            sys.exit(1)
        yield address
        return
    options = ["--config", file] if file is not None else []
    options += ["--key-env", key_env] if key_env is not None else []
    with own_gateway(options) as address:
        click.echo(f"toolglot: started a gateway at {address} for this agent", err=True)
        yield address


def is_toolglot(url: str) -> bool:
    """Does a gateway of ours answer there?"""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/", timeout=2) as reply:
            return bool(json.decode(reply.read(100_000)).get("name") == "toolglot")
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def own_gateway(options: list[str]) -> Iterator[str]:
    """A gateway in a process of its own, on a free port, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        told = Path(folder) / "address"
        command = [sys.executable, "-m", "toolglot", "serve", "--port", "0", "--quiet", "--address-file", str(told)]
        with subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL) as process:
            try:
                yield _wait_for(told, process)
            finally:
                process.terminate()


def _wait_for(told: Path, process: subprocess.Popen[bytes]) -> str:
    """The address that a gateway writes down once it listens."""
    while process.poll() is None:
        if told.exists() and (address := told.read_text().strip()):
            return address
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    click.echo("toolglot: the gateway did not start", err=True)
    sys.exit(1)
