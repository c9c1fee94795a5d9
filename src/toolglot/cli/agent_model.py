"""Choose and check the model that an agent starts with: the user's choice, the only model, or a choice on the terminal.
Its upstream is asked once before the agent starts. An agent notices a wrong key, a missing model or a small context
window only after minutes of retries, and then describes them badly.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click
import msgspec
from msgspec import Struct

from toolglot.chat.model_choice import NOT_OFFERED, QUESTION, join_names, offer_lines, parse_choice
from toolglot.cli.agents import Agent, AgentTarget
from toolglot.cli.parameters import count_noun
from toolglot.cli.running_gateway import GatewayAddress, fetch_json
from toolglot.config.problems import one_of
from toolglot.doctor.finding import Finding
from toolglot.lint.report import visible
from toolglot.routing import DEMO
from toolglot.upstream.discovery import probe_local
from toolglot.upstream.vendors import LOCAL_SERVERS
from toolglot.wire import json

CHECK_TIMEOUT = 30.0
"""Time limit of the check in seconds. The gateway's own limit for the upstream's answer is shorter."""
NO_MODEL_ADVICE = (
    "start a model server or set a vendor's API key; `toolglot doctor` shows what was looked for. "
    "To try the agent without a model: --model demo"
)


class ModelError(Exception):
    """The agent should not start. `advice` says what to do."""

    def __init__(self, why: str, advice: str | None = None) -> None:
        super().__init__(why)
        self.advice = advice


class CheckedModel(Struct, frozen=True):
    """The gateway's report on a model (`GET /debug/model`)."""

    model: str
    upstream: str
    upstream_model: str = ""
    is_demo: bool = False
    is_substitute: bool = False
    context_window: int | None = None
    window_advice: str | None = None
    findings: tuple[Finding, ...] = ()


def find_target(agent: Agent, place: GatewayAddress, model: str | None, *, check: bool) -> AgentTarget:
    """Return the gateway, key and working model for the agent. Raises `ModelError`."""
    if check and model is None:
        model = choose_model(agent, place)
    if model is None:
        return AgentTarget(url=place.url, key=place.key)
    window, output = _fetch_limits(place, model)
    if check and (checked := _check_model(place, model)) is not None:
        _require_working(checked)
        _require_named(checked, place)
        window = checked.context_window or window
        _require_window(agent, checked)
    return AgentTarget(url=place.url, key=place.key, model=model, window=window, output=output)


def _fetch_limits(place: GatewayAddress, model: str) -> tuple[int | None, int | None]:
    """Return the context window and the output limit that the gateway knows; agents cannot know them."""
    status, reply = fetch_json(place, f"/v1/models/{quote(model, safe='')}")
    if status == 404:
        raise ModelError(_error_message(reply))
    limits = [reply.get(name) if isinstance(reply, Mapping) else None for name in ("max_input_tokens", "max_tokens")]
    window, output = (limit if isinstance(limit, int) and limit > 0 else None for limit in limits)
    return window, output


def _check_model(place: GatewayAddress, model: str) -> CheckedModel | None:
    """Ask the gateway to check a model; None if the gateway is too old to do so."""
    status, reply = fetch_json(place, f"/debug/model?name={quote(model, safe='')}", CHECK_TIMEOUT)
    if status == 404 and _error_code(reply) != "unknown_path":
        raise ModelError(_error_message(reply))
    try:
        return msgspec.convert(reply, CheckedModel) if status == 200 else None
    except msgspec.ValidationError:
        return None


def _error_code(reply: Any) -> Any:
    error = reply.get("error") if isinstance(reply, Mapping) else None
    return error.get("code") if isinstance(error, Mapping) else None


def _error_message(reply: Any) -> str:
    error = reply.get("error") if isinstance(reply, Mapping) else None
    return str(error.get("message")) if isinstance(error, Mapping) else "the gateway does not know this model"


def _require_working(checked: CheckedModel) -> None:
    for finding in checked.findings:
        if finding.status == "fail":
            raise ModelError(finding.what, finding.advice)
        click.echo(f"toolglot: {visible(finding.what)}", err=True)


def _require_window(agent: Agent, checked: CheckedModel) -> None:
    """Check that the agent's first request fits into the model's context window."""
    if agent.first_request is None or checked.is_demo:
        return
    needed = f"{agent.title} needs about {agent.first_request:,} tokens for its first request"
    window = checked.context_window
    if window is None and checked.window_advice is not None:
        unknown = f"{checked.upstream} does not say how large the context window of {checked.model} is"
        click.echo(f"toolglot: warning: {visible(unknown)}; {needed}", err=True)
        click.echo(f"  if it is smaller, {visible(checked.window_advice)}", err=True)
        setting = f"`context_window` under `[models.{json.encode_text(checked.model)}]` in the configuration"
        click.echo(f"  if it is known, set {visible(setting)}", err=True)
    elif window is not None and window < agent.first_request:
        why = f"{checked.upstream} serves {checked.model} with a context window of {window:,} tokens; {needed}"
        raise ModelError(why, checked.window_advice)


def _require_named(checked: CheckedModel, place: GatewayAddress) -> None:
    """Check that the model itself answers, not the demo or another model in its place."""
    if not checked.is_substitute:
        return
    names = _list_models(place)
    if not names:
        raise ModelError(f"no upstream has the model `{checked.model}`", _advise_without_models(place))
    raise ModelError(f"{checked.upstream} has no model `{checked.model}`", one_of(checked.model, names))


def _advise_without_models(place: GatewayAddress) -> str:
    """Advise on servers that the environment names but that have no models, if our own gateway looked for them."""
    servers = tuple(row for row in LOCAL_SERVERS if any(os.environ.get(name) for name in row.base_url_variables))
    if place.log is None or not servers:
        return NO_MODEL_ADVICE
    lines = asyncio.run(probe_local(os.environ, servers=servers)).found
    return "\n".join((*lines, NO_MODEL_ADVICE))


# ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def choose_model(agent: Agent, place: GatewayAddress) -> str | None:
    """Choose a model if the user named none; None if the models that the agent requests by default work. Raises
    `ModelError`."""
    names = _list_models(place)
    if len(names) == 1:
        click.echo(f"toolglot: using {visible(names[0])}, the only model", err=True)
        return names[0]
    if agent.usual_model is not None and _works(place, agent.usual_model):
        return None
    if not names:
        raise ModelError("no models found", _advise_without_models(place))
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ModelError(f"choose one of {count_noun(len(names), 'model')} with --model", join_names(names))
    return _ask_for_model(names)


def _list_models(place: GatewayAddress) -> list[str]:
    """Return the names of the models that upstreams have, without the demo's."""
    _, reply = fetch_json(place, "/v1/models", CHECK_TIMEOUT)
    entries = reply.get("data") if isinstance(reply, Mapping) else None
    names = [entry.get("id") for entry in entries or () if isinstance(entry, Mapping)]
    return [name for name in names if isinstance(name, str) and name != DEMO]


def _works(place: GatewayAddress, model: str) -> bool:
    """Return whether requests for this model work. Raises `ModelError` if its upstream fails."""
    try:
        checked = _check_model(place, model)
    except ModelError:
        return False
    if checked is None:
        return True
    if checked.is_demo or any(finding.check == "model" for finding in checked.findings):
        return False
    _require_working(checked)
    return True


def _ask_for_model(names: Sequence[str]) -> str:
    for line in offer_lines(names):
        click.echo(line, err=True)

    def parse(typed: str) -> str:
        if (name := parse_choice(typed, names)) is None:
            raise click.UsageError(NOT_OFFERED)
        return name

    return str(click.prompt(QUESTION, prompt_suffix="", value_proc=parse, err=True))
