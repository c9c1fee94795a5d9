"""Check one model before use: its upstream answers, accepts the key and has the model, and its context window is large
enough. Only free requests are sent; one of them may load the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from toolglot.cli.agents import Agent
from toolglot.config.problems import did_you_mean
from toolglot.doctor.finding import Finding, fail, warn
from toolglot.doctor.upstreams import UpstreamCheck, check_upstream
from toolglot.gateway.gateway import Gateway
from toolglot.models import ModelInfo
from toolglot.routing import DEMO, Target, is_substitute
from toolglot.upstream.exchange import sets_window
from toolglot.upstream.served_window import ServedWindow, fetch_served_window
from toolglot.upstream.transport import Timeouts
from toolglot.upstream.upstream import Upstream
from toolglot.upstream.vendors import LOCAL_SERVERS, VENDORS

_SNAPSHOT = re.compile(r"(?:[-@](?:[0-9]{3,8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|preview|exp))*")
CHECK_TIMEOUT = Timeouts(connect=5.0, first_byte=5.0, idle=5.0)
LOCAL_NAMES = frozenset(vendor.name for vendor in LOCAL_SERVERS)
SUGGESTED_WINDOW = 32_768
"""Suggested context window in tokens."""
MAX_LISTED = 8
"""Maximum models to name if none is similar to the wrong one."""


class ModelCheck(Struct, frozen=True, kw_only=True):
    """Facts about a model that a client wants to use."""

    model: str
    upstream: str
    upstream_model: str
    rule: str
    """Why a request for this model goes to this upstream."""
    is_demo: bool
    is_substitute: bool
    """True if the upstream's default model answers, because no rule knows this name."""
    context_window: int | None
    window_advice: str | None
    """Advice on serving the model with a larger window."""
    findings: tuple[Finding, ...]


async def check_model(gateway: Gateway, name: str, timeouts: Timeouts = CHECK_TIMEOUT) -> ModelCheck:
    """Check the model that a client calls `name`. Raises `UnknownModelError` if no upstream serves it.

    An upstream that accepts the connection and is slow is only a warning: it may be loading a model.
    """
    target = gateway.router.resolve(name)[0]
    upstream, vendor = gateway.upstreams[target.upstream], gateway.config.upstreams[target.upstream].vendor
    result = await check_upstream(upstream, timeouts)
    findings = [finding for finding in result.findings if finding.status == "fail"]
    if result.timed_out:
        findings = [replace(finding, status="warn") for finding in findings]
    window, served = target.context_window, None
    if not findings and target.upstream != DEMO:
        findings += _missing_model(target, result, is_local=vendor in LOCAL_NAMES)
        is_set = window is not None and sets_window(upstream, target.model)
        if not findings and not is_set:
            # If a window is configured, the model need not be loaded to determine it.
            served = await fetch_served_window(upstream, vendor, target.model, load=window is None)
        window = (served and served.tokens) or window or _listed_window(result, target.model)
    return ModelCheck(
        model=name,
        upstream=target.upstream,
        upstream_model=target.model,
        rule=target.rule,
        is_demo=target.upstream == DEMO,
        is_substitute=is_substitute(target, name),
        context_window=window,
        window_advice=_describe_window_setting(upstream, vendor, target.model, served),
        findings=tuple(findings),
    )


async def check_window(
    upstream: Upstream, vendor: str | None, model: ModelInfo, agent: Agent, configured: int | None = None
) -> Finding | None:
    """Warn if the context window of a local server's model is too small for an agent."""
    is_set = configured is not None and sets_window(upstream, model.name)
    served = ServedWindow(configured or 0) if is_set else await fetch_served_window(upstream, vendor, model.name)
    window = model.context_window if served is None else served.tokens
    if window is None or agent.first_request is None or window >= agent.first_request:
        return None
    what = f"{model.name} has a context window of {window:,} tokens; {agent.title} needs about {agent.first_request:,}"
    return warn("window", what, _describe_window_setting(upstream, vendor, model.name, served), upstream.name)


def _describe_window_setting(
    upstream: Upstream, vendor: str | None, model: str, served: ServedWindow | None
) -> str | None:
    """Describe how to get a window for coding agents on this vendor's server; None if unknown."""
    row = VENDORS.get(vendor or "")
    setting = (served and served.setting) or (row and row.window_setting)
    if not setting:
        return None
    advice = setting.format(tokens=SUGGESTED_WINDOW)
    is_ours = served is not None and sets_window(upstream, model)
    return f"{advice}, or `context_window` of the model in toolglot's configuration" if is_ours else advice


def _listed_window(result: UpstreamCheck, model: str) -> int | None:
    return next((listed.context_window for listed in result.listed or () if listed.name == model), None)


def _missing_model(target: Target, result: UpstreamCheck, *, is_local: bool) -> list[Finding]:
    names = result.models
    if result.listed is None or is_listed(target.model, names):
        return []
    if not names and not is_local:  # some servers list a model only once it is loaded
        return []
    shown = ", ".join(names[:MAX_LISTED]) + (", …" if len(names) > MAX_LISTED else "")
    advice = did_you_mean(target.model, names) or (f"it has {shown}" if names else "it has no models")
    return [fail("model", f"{target.upstream} has no model `{target.model}`", advice, target.upstream)]


def is_listed(model: str, listed: Collection[str]) -> bool:
    """Return whether a list has this model, under its name or an equivalent one: lists name dated snapshots
    (`m-20260101`) and tags (`m:latest`) where users write `m` or `m-latest`."""
    base, _, variant = model.rpartition(":")  # OpenRouter and Hugging Face: `model:nitro`, `model:cerebras`
    if model in listed or f"{model}:latest" in listed or (variant and base in listed):
        return True
    stem = model.removesuffix("-latest").removesuffix("-0")
    return any(name.startswith(stem) and _SNAPSHOT.fullmatch(name, len(stem)) for name in listed)
