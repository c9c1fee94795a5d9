"""`toolglot launch`: start a coding agent that uses the gateway, without changes to the user's files. The terminal
belongs to the agent. Ctrl-C reaches only the agent. A gateway that `launch` starts runs in its own process group,
writes its log to a temporary file, and ends after the agent.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import NoReturn

import click

from toolglot.cli.agent_model import ModelError, choose_model, find_target
from toolglot.cli.agent_process import AgentError, agent_environment, run_agent, write_settings
from toolglot.cli.agents import AGENTS, Agent, AgentTarget, PreparedAgent, prepare_agent, settings_path
from toolglot.cli.parameters import SuggestingChoice, count_noun, exit_bad_config, upstream_key_option
from toolglot.cli.running_gateway import NO_KEY, GatewayAddress, accepts_key, fetch_json, fetch_welcome, is_toolglot
from toolglot.config.load import load_config
from toolglot.config.problems import ConfigError
from toolglot.lint.report import visible
from toolglot.wire import json

DEFAULT_URL = "http://127.0.0.1:4141"
KEY_VARIABLE = "TOOLGLOT_LAUNCH_KEY"
SHOWN_LOG_LINES = 5
SHOWN_LOSSES = 3


HELP = f"""Start AGENT and point it at the gateway. Arguments after `--` go to the agent.

AGENT is one of: {", ".join(AGENTS)}.

Without --model, the only model is used, or you choose from a list. Its upstream is checked before the agent starts.

Your files stay unchanged: the agent is configured through its environment and arguments only. If no gateway is running,
this command starts one and stops it when the agent exits.
"""


@click.command(
    help=HELP,
    short_help="Start a coding agent that uses the gateway.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("name", metavar="AGENT", type=SuggestingChoice(AGENTS))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--model", help="Model that the agent requests.")
@click.option(
    "--url", help=f"URL of a running gateway. Default: the configured address, {DEFAULT_URL}, or a new gateway."
)
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the running gateway's key.")
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Configuration file for the gateway that `launch` starts."
)
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="DIALECT=URL",
    help="Upstream for the gateway that `launch` starts.",
)
@upstream_key_option
@click.option("--check/--no-check", default=True, help="Check the model before the agent starts. Default: check.")
@click.option("--show", is_flag=True, help="Print the command and its environment without starting the agent.")
def launch(
    name: str,
    arguments: tuple[str, ...],
    model: str | None,
    url: str | None,
    key_env: str | None,
    file: Path | None,
    upstreams: tuple[str, ...],
    key_variables: tuple[str, ...],
    check: bool,
    show: bool,
) -> None:
    agent = AGENTS[name]
    options = [*_repeat_option("--config", (str(file),) if file else ()), *_repeat_option("--upstream", upstreams)]
    options += _repeat_option("--upstream-key-env", key_variables)
    if url is not None and options:
        raise click.UsageError("--url selects a running gateway; --config and --upstream apply to a new one")
    if key_env is not None and not os.environ.get(key_env):
        raise click.UsageError(f"--key-env: the environment variable {key_env} is not set")
    if agent.needs_model and model is None and not check:
        raise click.UsageError(f"{agent.title} needs a model: --model NAME")
    key = os.environ[key_env] if key_env else None
    try:
        places = (
            [GatewayAddress(_base(url), key or NO_KEY)]
            if url is not None
            else _candidate_gateways(file, upstreams, key)
        )
    except ConfigError as error:
        exit_bad_config(error.problems)
    if show:
        shown = places[0].url if places else DEFAULT_URL
        if model is None and check:
            model = _find_model(agent, places, url is not None, options)
        _show(prepare_agent(agent, AgentTarget(url=shown, key="KEY", model=model), "FOLDER"), agent, arguments)
        return
    command = shutil.which(agent.command)
    if command is None:
        _exit_with(f"`{agent.command}` is not on the PATH; install it: {agent.install}", 127)
    with _find_gateway(places, url is not None, options) as place:
        try:
            target = find_target(agent, place, model, check=check)
        except ModelError as error:
            _exit_with(str(error), advice=error.advice)
        if place.log is not None:
            click.echo(f"toolglot: started a gateway at {place.url} for this agent; error log: {place.log}", err=True)
        status = _run(agent, command, arguments, target)
    sys.exit(status)


def _find_model(agent: Agent, places: list[GatewayAddress], named: bool, options: list[str]) -> str | None:
    """Return the model that the agent would start with. If no gateway is running, start one only for this lookup."""
    with _find_gateway(places, named, options) as place:
        try:
            return choose_model(agent, place)
        except ModelError as error:
            _exit_with(str(error), advice=error.advice)


def _run(agent: Agent, command: str, arguments: tuple[str, ...], wish: AgentTarget) -> int:
    """Write the agent's settings, run it, and return its exit status."""
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        told = prepare_agent(agent, wish, folder)
        try:
            if told.settings:
                write_settings(agent, told.settings, Path(folder), os.environ)
            environment = agent_environment(told, os.environ, wish.url)
            return run_agent([command, *told.arguments, *arguments], environment, agent.install)
        except AgentError as error:
            _exit_with(str(error), error.status)


def _repeat_option(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _exit_with(why: str, status: int = 1, advice: str | None = None) -> NoReturn:
    click.echo(f"toolglot: {visible(why)}", err=True)
    for line in (advice or "").splitlines():
        click.echo(f"  {visible(line)}", err=True)
    sys.exit(status)


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def _show(told: PreparedAgent, agent: Agent, arguments: tuple[str, ...]) -> None:
    """Print the commands for a shell instead of running them."""
    if told.settings:
        click.echo(f"# in a temporary FOLDER, file {settings_path(agent)}: {json.encode_text(told.settings)}")
    if agent.mirror:
        click.echo(f"# next to it, links to the files in your {agent.mirror}; under it, your settings")
    for name in told.unset:
        click.echo(f"unset {name}")
    for name, value in told.environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    click.echo(shlex.join([agent.command, *told.arguments, *arguments]))


# ── the gateway ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _candidate_gateways(file: Path | None, upstreams: tuple[str, ...], key: str | None) -> list[GatewayAddress]:
    """Return the addresses at which a gateway may already run: the configured one and the default.

    If the user names upstreams, the agent needs its own gateway. If the user names a file, the gateway must have read
    it. Raises `ConfigError`.
    """
    try:
        server = load_config(file, os.environ).config.server
    except ConfigError:
        if file is not None:
            raise
        # A running gateway has resolved its variables. If none is running, a new one reports the problem.
        return [] if upstreams else [GatewayAddress(DEFAULT_URL, key or NO_KEY)]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    address = f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"
    if upstreams or (file is not None and address == DEFAULT_URL):
        return []
    configured = GatewayAddress(address, key or next(iter(server.keys), NO_KEY))
    return (
        [configured]
        if file is not None or address == DEFAULT_URL
        else [configured, GatewayAddress(DEFAULT_URL, key or NO_KEY)]
    )


@contextmanager
def _find_gateway(places: list[GatewayAddress], named: bool, options: list[str]) -> Iterator[GatewayAddress]:
    """Return a gateway that answers: the named one, a running one, or a new one."""
    place = next((place for place in places if is_toolglot(place.url)), None)
    if place is None and named:
        # An agent that cannot reach the gateway may silently spend the user's own account instead.
        url = places[0].url
        _exit_with(
            f"the server at {url} is not toolglot; check the port"
            if fetch_welcome(url) is not None
            else f"no gateway is running at {url}; start one with `toolglot serve`"
        )
    if place is not None:
        if not accepts_key(place):
            kind = "a" if place.key == NO_KEY else "a different"
            _exit_with(f"the gateway at {place.url} requires {kind} key: --key-env NAME")
        yield place
        return
    key = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        log = Path(folder) / "log"
        with own_gateway([*options, "--key-env", KEY_VARIABLE], {KEY_VARIABLE: key}, log) as address:
            place = GatewayAddress(address, key, log)
            yield place
            _tell_losses(place)


def _tell_losses(place: GatewayAddress) -> None:
    """Report the losses during the agent's run, because the receipts end with the gateway."""
    _, told = fetch_json(place, "/debug/receipts")
    receipts = told.get("receipts", ()) if isinstance(told, Mapping) else ()
    lost = [
        {f"{line['what']} ({line['why']})" for line in receipt["lines"] if line["severity"] == "loss"}
        for receipt in receipts
    ]
    if count := sum(map(bool, lost)):
        click.echo(f"toolglot: {count} of {count_noun(len(lost), 'request')} lost data in translation:", err=True)
        for what, times in Counter(chain(*lost)).most_common(SHOWN_LOSSES):
            click.echo(f"  {visible(what)}{f', {times} times' if times > 1 else ''}", err=True)


@contextmanager
def own_gateway(options: list[str], environment: Mapping[str, str] = {}, log: Path | None = None) -> Iterator[str]:
    """Yield the address of a gateway in a separate process, on a free port, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        told, log = Path(folder) / "address", log or Path(folder) / "log"
        command = [sys.executable, "-m", "toolglot", "serve", "--port", "0", "--quiet", "--log", "text"]
        command += ["--address-file", str(told), *options]
        with (
            log.open("wb") as output,
            subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Otherwise, Ctrl-C would end it before the agent's last output, and a hangup would reload it.
                process_group=0,
            ) as process,
        ):
            try:
                yield _address(told, process)
            finally:
                process.terminate()
                process.wait()
                _show_log(log)


def _address(told: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait for the address that a gateway writes once it listens."""
    while process.poll() is None:
        if told.exists() and (address := told.read_text().strip()):
            return address
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    _exit_with("the gateway did not start:")


def _show_log(log: Path) -> None:
    """Show the gateway's warnings now, because the agent had the terminal before."""
    lines = log.read_text(errors="replace").splitlines()
    for line in lines[-SHOWN_LOG_LINES:]:
        click.echo(f"  {visible(line)}", err=True)
