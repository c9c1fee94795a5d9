"""`toolglot launch`: a coding agent against the gateway, with nothing of the user's files touched.

The terminal belongs to the agent. Ctrl-C reaches it and nobody else; a gateway of our own is in a process group of its
own, writes its log to a temporary file, and ends after the agent.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

import click
from msgspec import Struct
from msgspec.structs import replace

from toolglot.cli.agents import AGENTS, Agent, Prepared, Wish, merged, prepared, settings_path
from toolglot.errors import DecodeError
from toolglot.lint.report import visible
from toolglot.wire import json

DEFAULT_URL = "http://127.0.0.1:4141"
NO_KEY = "toolglot"
"""Agents want a key even where the gateway wants none."""
KEY_VARIABLE = "TOOLGLOT_LAUNCH_KEY"
SHOWN_LOG_LINES = 5
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class Place(Struct, frozen=True):
    """A gateway that answers, and the key that it wants to see."""

    url: str
    key: str


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", metavar="AGENT", type=click.Choice(list(AGENTS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--model", help="The model that the agent is to ask for.")
@click.option("--url", help=f"A gateway that runs already. Default: the one at {DEFAULT_URL}, else an own one.")
@click.option("--key-env", metavar="NAME", help="The variable with the key of the gateway that runs.")
@click.option("--config", "file", type=click.Path(exists=True, dir_okay=False), help="The file for an own gateway.")
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
    file: str | None,
    upstreams: tuple[str, ...],
    key_variables: tuple[str, ...],
    show: bool,
) -> None:
    """Start AGENT against the gateway; what follows `--` goes to the agent.

    No file of yours is changed: the agent is told by its environment and its arguments alone. If no gateway runs, one
    is started for as long as the agent runs.
    """
    agent = AGENTS[name]
    options = [*_named("--config", (file,) if file else ()), *_named("--upstream", upstreams)]
    options += _named("--upstream-key-env", key_variables)
    if url is not None and options:
        raise click.UsageError("--url names a gateway that runs; --config and --upstream are for an own one")
    if key_env is not None and not os.environ.get(key_env):
        raise click.UsageError(f"--key-env: the environment has no {key_env}")
    if agent.needs_model and model is None:
        raise click.UsageError(f"{agent.title} has to be told a model: --model NAME")
    if show:
        _show(prepared(agent, Wish(url=_base(url or DEFAULT_URL), key="KEY", model=model), "FOLDER"), agent, arguments)
        return
    command = shutil.which(agent.command)
    if command is None:
        _stop(f"there is no `{agent.command}` on the PATH: {agent.install}", 127)
    with ExitStack() as stack:
        place = stack.enter_context(_gateway(url, options, os.environ[key_env] if key_env else None))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolglot-")))
        told = prepared(agent, _wish(place, model), str(folder))
        if told.settings:
            write_settings(agent, told.settings, folder, os.environ)
        status = run_agent([command, *told.arguments, *arguments], surroundings(told, os.environ, place.url))
    sys.exit(status)


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


def write_settings(agent: Agent, settings: Mapping[str, Any], folder: Path, environ: Mapping[str, str]) -> None:
    """Put an agent's settings into the temporary folder, and what it would miss beside them."""
    path = folder / settings_path(agent)
    path.parent.mkdir(parents=True, exist_ok=True)
    if agent.mirror is not None:
        home = environ.get(agent.mirror_variable or "") or environ.get("HOME") or str(Path.home())
        theirs = Path(home) / agent.mirror
        for entry in theirs.iterdir() if theirs.is_dir() else ():
            if entry.name != path.name:
                (path.parent / entry.name).symlink_to(entry.absolute())
        settings = merged(_existing(theirs / path.name), settings)
    path.write_bytes(json.encode(settings))


def _existing(path: Path) -> Mapping[str, Any]:
    """The user's own settings, which may have comments."""
    try:
        text = path.read_text()
        settings = json.decode(_COMMENTS.sub(lambda found: found[1] or "", text)) if text.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        _stop(f"{path}: these settings cannot be kept in force: {error}")
    return settings if isinstance(settings, Mapping) else {}


_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def surroundings(told: Prepared, environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The agent's environment: the user's, what points it at the gateway, and no proxy on the way there."""
    environment = {name: value for name, value in environ.items() if name not in told.unset}
    environment |= told.environment
    if any(environ.get(name) for name in PROXIES):
        host = urlsplit(url).hostname or ""
        for name in ("NO_PROXY", "no_proxy"):
            environment[name] = ",".join(part for part in (environ.get(name), host) if part)
    return environment


# ── the agent ────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_agent(command: list[str], environment: Mapping[str, str]) -> int:
    """Run it to its end in this terminal; its exit status as a shell tells it."""
    with subprocess.Popen(command, env=environment) as process, _passing_signals(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _passing_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """What the terminal sends reaches the agent by itself, so it is not heeded here; the rest is handed on."""

    def heed_not(number: int, frame: FrameType | None) -> None:
        """A handler of our own, and not `SIG_IGN`: that one the agent would inherit."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    handlers = {"SIGINT": heed_not, "SIGQUIT": heed_not, "SIGTERM": hand_on, "SIGHUP": hand_on}
    before = {
        number: signal.signal(number, handler)
        for name, handler in handlers.items()
        if (number := getattr(signal, name, None)) is not None
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ── the gateway ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _gateway(url: str | None, options: list[str], key: str | None) -> Iterator[Place]:
    """A gateway that answers: the one that is named, the usual one, or one of our own."""
    if url is not None or (not options and is_toolglot(DEFAULT_URL)):
        address = _base(url or DEFAULT_URL)
        if not is_toolglot(address):
            # An agent that cannot reach the gateway may quietly spend the user's own account instead.
            _stop(f"no gateway answers at {address}; `toolglot serve` starts one")
        if not _lets_in(address, key or NO_KEY):
            _stop(f"the gateway at {address} wants {'another' if key else 'a'} key: --key-env NAME")
        yield Place(address, key or NO_KEY)
        return
    key = secrets.token_urlsafe(24)
    with own_gateway([*options, "--key-env", KEY_VARIABLE], {KEY_VARIABLE: key}) as address:
        click.echo(f"toolglot: started a gateway at {address} for this agent", err=True)
        yield Place(address, key)


def _open(url: str, headers: Mapping[str, str] = {}) -> tuple[int, bytes]:
    """A status and a body; no proxy is asked. Raises `OSError` when nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=2) as reply:
            return reply.status, reply.read(100_000)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b""


def is_toolglot(url: str) -> bool:
    """Does a gateway of ours answer there?"""
    try:
        welcome = json.decode(_open(f"{url}/")[1])
    except (OSError, ValueError, DecodeError):
        return False
    return isinstance(welcome, Mapping) and welcome.get("name") == "toolglot"


def _lets_in(url: str, key: str) -> bool:
    try:
        return _open(f"{url}/v1/models", {"authorization": f"Bearer {key}"})[0] != 401
    except (OSError, ValueError):
        return False


def _wish(place: Place, model: str | None) -> Wish:
    """What the gateway knows of the model's limits is told to the agent, which cannot know them."""
    wish = Wish(url=place.url, key=place.key, model=model)
    if model is None:
        return wish
    headers = {"authorization": f"Bearer {place.key}", "anthropic-version": "2023-06-01"}
    try:
        told = json.decode(_open(f"{place.url}/v1/models/{quote(model, safe='')}", headers)[1])
    except (OSError, ValueError, DecodeError):
        return wish  # a model that the gateway does not know: it will say so itself, and better
    limits = [told.get(name) if isinstance(told, Mapping) else None for name in ("max_input_tokens", "max_tokens")]
    window, output = (limit if isinstance(limit, int) and limit > 0 else None for limit in limits)
    return replace(wish, window=window, output=output)


@contextmanager
def own_gateway(options: list[str], environment: Mapping[str, str] = {}) -> Iterator[str]:
    """The address of a gateway in a process of its own, on a free port, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        told, log = Path(folder) / "address", Path(folder) / "log"
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
