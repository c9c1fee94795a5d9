"""`toolglot launch`: a coding agent against the gateway, with nothing of the user's files touched.

The terminal belongs to the agent. Ctrl-C reaches it and nobody else; a gateway of our own is in a process group of its
own, writes its log to a temporary file, and ends after the agent.
"""

from __future__ import annotations

import http.client
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import click
from msgspec import Struct
from msgspec.structs import replace

from toolglot.cli.agent_process import AgentError, run_agent, surroundings, write_settings
from toolglot.cli.agents import AGENTS, Agent, Prepared, Wish, prepared, settings_path
from toolglot.cli.parameters import Choice, counted, refuse_config
from toolglot.config.load import load
from toolglot.config.problems import ConfigError
from toolglot.errors import DecodeError
from toolglot.lint.report import visible
from toolglot.wire import json

DEFAULT_URL = "http://127.0.0.1:4141"
NO_KEY = "toolglot"
"""Agents want a key even where the gateway wants none."""
KEY_VARIABLE = "TOOLGLOT_LAUNCH_KEY"
SHOWN_LOG_LINES = 5
SHOWN_LOSSES = 3
PATIENCE = 5.0
"""Seconds for an answer; where nobody listens, that is known at once."""
MAX_ANSWER = 16 * 1024 * 1024
"""Bytes; a hundred receipts of a long conversation are many."""


class Place(Struct, frozen=True):
    """A gateway that answers, and the key that it wants to see."""

    url: str
    key: str


@click.command(short_help="Start a coding agent against it.", context_settings={"ignore_unknown_options": True})
@click.argument("name", metavar="AGENT", type=Choice(AGENTS))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--model", help="The model that the agent is to ask for.")
@click.option("--url", help=f"A gateway that runs already. Default: the configured one, {DEFAULT_URL}, or an own one.")
@click.option("--key-env", metavar="NAME", help="The variable with the key of the gateway that runs.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="The file for an own gateway.")
@click.option("--upstream", "upstreams", multiple=True, metavar="DIALECT=URL", help="Where an own gateway sends all.")
@click.option(
    "--upstream-key-env", "key_variables", multiple=True, metavar="NAME", help="The variable with that upstream's key."
)
@click.option("--show", is_flag=True, help="Print the command and its environment, and start nothing.")
def launch(
    name: str,
    arguments: tuple[str, ...],
    model: str | None,
    url: str | None,
    key_env: str | None,
    file: Path | None,
    upstreams: tuple[str, ...],
    key_variables: tuple[str, ...],
    show: bool,
) -> None:
    """Start AGENT against the gateway; what follows `--` goes to the agent.

    No file of yours is changed: the agent is told by its environment and its arguments alone. If no gateway runs, one
    is started for as long as the agent runs.
    """
    agent = AGENTS[name]
    options = [*_named("--config", (str(file),) if file else ()), *_named("--upstream", upstreams)]
    options += _named("--upstream-key-env", key_variables)
    if url is not None and options:
        raise click.UsageError("--url names a gateway that runs; --config and --upstream are for an own one")
    if key_env is not None and not os.environ.get(key_env):
        raise click.UsageError(f"--key-env: the environment has no {key_env}")
    if agent.needs_model and model is None:
        raise click.UsageError(f"{agent.title} has to be told a model: --model NAME")
    key = os.environ[key_env] if key_env else None
    try:
        places = [Place(_base(url), key or NO_KEY)] if url is not None else _usual(file, upstreams, key)
    except ConfigError as error:
        refuse_config(error.problems)
    if show:
        shown = places[0].url if places else DEFAULT_URL
        _show(prepared(agent, Wish(url=shown, key="KEY", model=model), "FOLDER"), agent, arguments)
        return
    command = shutil.which(agent.command)
    if command is None:
        _stop(f"there is no `{agent.command}` on the PATH: {agent.install}", 127)
    with _gateway(places, url is not None, options) as place:
        status = _run(agent, command, arguments, _wish(place, model))
    sys.exit(status)


def _run(agent: Agent, command: str, arguments: tuple[str, ...], wish: Wish) -> int:
    """The agent, from its settings to its exit status."""
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        told = prepared(agent, wish, folder)
        try:
            if told.settings:
                write_settings(agent, told.settings, Path(folder), os.environ)
            environment = surroundings(told, os.environ, wish.url)
            return run_agent([command, *told.arguments, *arguments], environment, agent.install)
        except AgentError as error:
            _stop(str(error), error.status)


def _named(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _stop(why: str, status: int = 1) -> NoReturn:
    click.echo(f"toolglot: {visible(why)}", err=True)
    sys.exit(status)


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def _show(told: Prepared, agent: Agent, arguments: tuple[str, ...]) -> None:
    """What would be started, as lines for a shell."""
    if told.settings:
        click.echo(f"# in a temporary FOLDER, {settings_path(agent)}: {json.encode_text(told.settings)}")
    if agent.mirror:
        click.echo(f"# beside it, links to what is in your {agent.mirror}; under it, your settings")
    for name in told.unset:
        click.echo(f"unset {name}")
    for name, value in told.environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    click.echo(shlex.join([agent.command, *told.arguments, *arguments]))


# ── the gateway ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _usual(file: Path | None, upstreams: tuple[str, ...], key: str | None) -> list[Place]:
    """Where a gateway may run already: where the configuration has it, and where it is without one.

    With upstreams of its own an agent wants a gateway of its own, and with a file one that has read it. Raises
    `ConfigError`.
    """
    try:
        server = load(file, os.environ).config.server
    except ConfigError:
        if file is not None:
            raise
        # One that runs has read its file where its variables are set. If none does, an own one will tell what is wrong.
        return [] if upstreams else [Place(DEFAULT_URL, key or NO_KEY)]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    address = f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"
    if upstreams or (file is not None and address == DEFAULT_URL):
        return []
    configured = Place(address, key or next(iter(server.keys), NO_KEY))
    return (
        [configured] if file is not None or address == DEFAULT_URL else [configured, Place(DEFAULT_URL, key or NO_KEY)]
    )


@contextmanager
def _gateway(places: list[Place], named: bool, options: list[str]) -> Iterator[Place]:
    """A gateway that answers: the one that is named, one of the usual ones, or one of our own."""
    place = next((place for place in places if is_toolglot(place.url)), None)
    if place is None and named:
        # An agent that cannot reach the gateway may quietly spend the user's own account instead.
        url = places[0].url
        _stop(
            f"what answers at {url} is not toolglot: is that the right port?"
            if _welcome(url) is not None
            else f"no gateway answers at {url}; `toolglot serve` starts one"
        )
    if place is not None:
        if not _lets_in(place):
            _stop(f"the gateway at {place.url} wants {'a' if place.key == NO_KEY else 'another'} key: --key-env NAME")
        yield place
        return
    key = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        log = Path(folder) / "log"
        with own_gateway([*options, "--key-env", KEY_VARIABLE], {KEY_VARIABLE: key}, log) as address:
            click.echo(f"toolglot: started a gateway at {address} for this agent; its errors go to {log}", err=True)
            place = Place(address, key)
            yield place
            _tell_losses(place)


def _open(url: str, headers: Mapping[str, str] = {}) -> tuple[int, bytes]:
    """A status and a body; no proxy is asked. Raises `OSError` when nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=PATIENCE) as reply:
            return reply.status, reply.read(MAX_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(MAX_ANSWER)


def _asked(place: Place, path: str) -> tuple[int, Any]:
    """A status and what the JSON says; None where it is none, or where nobody answers."""
    headers = {"authorization": f"Bearer {place.key}", "anthropic-version": "2023-06-01"}
    try:
        status, body = _open(f"{place.url}{path}", headers)
        return status, json.decode(body)
    except (OSError, ValueError, DecodeError):
        return 0, None


def _welcome(url: str) -> Any:
    """What answers there, as its JSON says; None when nobody answers."""
    try:
        body = _open(f"{url}/")[1]
    except http.client.HTTPException:  # it answers, but not in HTTP
        return ""
    except (OSError, ValueError):
        return None
    try:
        return json.decode(body)
    except DecodeError:
        return ""


def is_toolglot(url: str) -> bool:
    """Does a gateway of ours answer there?"""
    welcome = _welcome(url)
    return isinstance(welcome, Mapping) and welcome.get("name") == "toolglot"


def _lets_in(place: Place) -> bool:
    # Of the demo: for the list of all models the gateway would ask its upstreams first.
    status, _ = _asked(place, "/v1/models/demo")
    return status not in (0, 401)


def _wish(place: Place, model: str | None) -> Wish:
    """What the gateway knows of the model's limits is told to the agent, which cannot know them."""
    wish = Wish(url=place.url, key=place.key, model=model)
    if model is None:
        return wish
    status, told = _asked(place, f"/v1/models/{quote(model, safe='')}")
    if status == 404 and isinstance(told, Mapping) and isinstance(error := told.get("error"), Mapping):
        _stop(f"{error.get('message')}")  # an agent would begin, and say it worse
    limits = [told.get(name) if isinstance(told, Mapping) else None for name in ("max_input_tokens", "max_tokens")]
    window, output = (limit if isinstance(limit, int) and limit > 0 else None for limit in limits)
    return replace(wish, window=window, output=output)


def _tell_losses(place: Place) -> None:
    """What was lost while the agent ran: the receipts end with the gateway."""
    _, told = _asked(place, "/debug/receipts")
    receipts = told.get("receipts", ()) if isinstance(told, Mapping) else ()
    lost = [
        {f"{line['what']} ({line['why']})" for line in receipt["lines"] if line["severity"] == "loss"}
        for receipt in receipts
    ]
    if count := sum(map(bool, lost)):
        click.echo(f"toolglot: {count} of {counted(len(lost), 'request')} lost something in translation:", err=True)
        for what, times in Counter(chain(*lost)).most_common(SHOWN_LOSSES):
            click.echo(f"  {visible(what)}{f', {times} times' if times > 1 else ''}", err=True)


@contextmanager
def own_gateway(options: list[str], environment: Mapping[str, str] = {}, log: Path | None = None) -> Iterator[str]:
    """The address of a gateway in a process of its own, on a free port, for as long as the context lasts."""
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
                # Else Ctrl-C would end it before the agent has said its last word, and a hangup would reload it.
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
    """The address that a gateway writes down once it listens."""
    while process.poll() is None:
        if told.exists() and (address := told.read_text().strip()):
            return address
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    _stop("the gateway did not start:")


def _show_log(log: Path) -> None:
    """What the gateway complained of: not while the agent had the terminal, but now."""
    lines = log.read_text(errors="replace").splitlines()
    for line in lines[-SHOWN_LOG_LINES:]:
        click.echo(f"  {visible(line)}", err=True)
