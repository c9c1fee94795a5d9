"""The whole examination, in the usual order of failures: the machine, the configuration, the upstreams."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from time import time

from msgspec import Struct, field

from toolglot.agent.host import McpHost
from toolglot.agent.policy import call_policy
from toolglot.agent.server_records import ServerState, ServerTool
from toolglot.cli.agents import Agent
from toolglot.cli.running_gateway import is_toolglot
from toolglot.config.assemble import Assembled, assemble
from toolglot.config.problems import ConfigError
from toolglot.config.schema import McpServerConfig, StoreConfig
from toolglot.doctor import machine, models, probes, upstreams
from toolglot.doctor.finding import Finding, fail, ok, warn
from toolglot.doctor.installed_agents import find_agents
from toolglot.doctor.probes import ProbeResult
from toolglot.errors import MissingExtraError
from toolglot.gateway.gateway import Gateway
from toolglot.routing import DEMO, Target, UnknownModelError
from toolglot.server.security import UnsafeServerError, check_bind
from toolglot.server.startup import StartOptions, load_options, start_gateway
from toolglot.store import StoreError, ToolVerdict
from toolglot.store.sqlite import MEMORY, NO_STORE, SqliteStore, default_path
from toolglot.upstream.http_client import HttpTransport
from toolglot.upstream.tool_mode import PROBE_TTL
from toolglot.upstream.vendors import VENDORS, WINDOW_SETTINGS

MAX_PROBED = 3
"""Maximum models of one upstream to probe if none are named."""


class ExaminationPlan(Struct, frozen=True, kw_only=True):
    """The checks that the command line requests."""

    start_options: StartOptions
    offline: bool = False
    probe: bool = False
    models: tuple[str, ...] = ()
    """Models to probe, by the names that clients use."""
    usable_models: list[str] = field(default_factory=list)
    """Filled by the examination: models of reachable upstreams, by the names that clients use. Those whose window is
    too small for the largest agent are only in `small_models`."""
    small_models: list[str] = field(default_factory=list)


async def examine(plan: ExaminationPlan, environ: Mapping[str, str]) -> AsyncGenerator[Finding, None]:
    """Yield findings as they arise."""
    for finding in (
        *machine.check_python(),
        *machine.check_tracing(environ),
        *await find_agents(environ),
    ):
        yield finding
    try:
        config, file, notes = load_options(plan.start_options, environ)
    except ConfigError as error:
        for problem in error.problems:
            yield fail("config", str(problem), "`toolglot config schema` lists all fields")
        return
    yield ok("config", "valid", str(file)) if file is not None else ok("config", "no file: using the defaults")
    for note in notes:
        yield warn("config", note)
    for finding in (*machine.check_port(config.server, is_toolglot), *machine.check_store(config, environ)):
        yield finding
    async with aclosing(_upstreams(plan, environ)) as findings:
        async for finding in findings:
            yield finding


async def _upstreams(plan: ExaminationPlan, environ: Mapping[str, str]) -> AsyncGenerator[Finding, None]:
    config, _, _ = load_options(plan.start_options, environ)
    try:
        check_bind(config.server)
    except UnsafeServerError:
        return  # already reported, and no gateway starts
    if plan.offline:
        for finding in _configuration_findings(assemble(config, environ)):
            yield finding
        yield warn("upstream", "upstreams and local servers were not contacted: --offline")
        if config.mcp.servers:
            yield warn("mcp", "MCP servers were not started or contacted: --offline")
        return
    transport = HttpTransport(config.limits.upstream_connections, environ)
    try:
        begun = await start_gateway(plan.start_options, environ, transport)
        for finding in _configuration_findings(Assembled(begun.gateway.config, begun.notices)):
            yield finding
        asked = await asyncio.gather(
            *(upstreams.check_upstream(upstream) for upstream in begun.gateway.upstreams.values())
        )
        results = dict(zip(begun.gateway.upstreams, asked, strict=True))
        for finding in await _find_usable_models(
            plan, begun.gateway, results, machine.largest_agent(environ.get("PATH"))
        ):
            yield finding
        for name, result in results.items():
            wanted = upstreams.wanted_models(name, begun.gateway.config)
            missing = upstreams.missing_models(name, wanted, result.models)
            for finding in (*result.findings, *missing):
                yield finding
        for finding in await examine_servers(begun.gateway.config.mcp.servers):
            yield finding
        if plan.probe:
            for finding in await _probe_models(plan, begun.gateway, results, environ):
                yield finding
    finally:
        await transport.close()


async def _find_usable_models(
    plan: ExaminationPlan, gateway: Gateway, results: Mapping[str, upstreams.UpstreamCheck], agent: Agent | None
) -> list[Finding]:
    """Collect the models that clients can use, and those whose window is too small for the agent."""
    findings: list[Finding] = []
    for name, result in results.items():
        upstream, vendor = gateway.upstreams[name], gateway.config.upstreams[name].vendor
        for number, model in enumerate(result.listed or ()):
            warning = None
            if agent is not None and number < MAX_PROBED and vendor in WINDOW_SETTINGS:
                target = gateway.router.direct(name, model.name)
                configured = None if target is None else target.context_window
                warning = await models.check_window(upstream, vendor, model, agent, configured)
            findings += [] if warning is None else [warning]
            fitting = plan.small_models if warning else plan.usable_models
            fitting.append(gateway.catalog.client_name(upstream, model.name))
    return findings


def _configuration_findings(assembled: Assembled) -> list[Finding]:
    """Return findings on discovery without a configuration, and on all keys."""
    found = [
        _discovery_finding(line)
        for line in assembled.told
        if not line.startswith("upstreams.")  # missing keys are reported below, with the others
    ]
    keys = [machine.check_key(name, upstream) for name, upstream in assembled.config.upstreams.items() if name != DEMO]
    without_address = [
        fail("upstream", "it has no address", f"set `upstreams.{name}.base_url`", name)
        for name, upstream in assembled.config.upstreams.items()
        if upstream.base_url is None
    ]
    return [*found, *keys, *without_address]


def _discovery_finding(line: str) -> Finding:
    """Return the finding for a line of discovery, which may end with advice after a semicolon."""
    if " not used" not in line and not line.startswith(("no key", "no upstream")):
        return ok("found", line)
    what, _, advice = line.partition("; ")
    return warn("found", what, advice or None)


async def _probe_models(
    plan: ExaminationPlan, gateway: Gateway, asked: Mapping[str, upstreams.UpstreamCheck], environ: Mapping[str, str]
) -> list[Finding]:
    """Probe each upstream's models sequentially, and all upstreams concurrently."""
    chosen: dict[str, list[probes.ProbedModel]] = {}
    findings: list[Finding] = []
    if plan.models:
        for name in plan.models:
            try:
                target = gateway.router.resolve(name)[0]
            except UnknownModelError as error:
                findings.append(fail("model", str(error), subject=name))
                continue
            chosen.setdefault(target.upstream, []).append(_probed_model(gateway, target))
    else:
        for name, result in asked.items():
            if result.reachable:
                names, more = _choose_models(gateway, name, result.models)
                findings += more
                targets = (gateway.router.direct(name, each) for each in names)
                chosen[name] = [_probed_model(gateway, target) for target in targets if target is not None]
    done = await asyncio.gather(*(_probe_each(models) for models in chosen.values()))
    probed = [one for each in done for one in each]
    told = [finding for one in probed for finding in one.findings]
    return [*findings, *told, *await save_verdicts(probed, gateway.config.store, environ)]


def _probed_model(gateway: Gateway, target: Target) -> probes.ProbedModel:
    return probes.ProbedModel(
        gateway.upstreams[target.upstream], target, gateway.config.upstreams[target.upstream].vendor
    )


async def _probe_each(models: Sequence[probes.ProbedModel]) -> list[probes.ProbeResult]:
    return [await probes.probe_model(model) for model in models]


def _choose_models(gateway: Gateway, name: str, listed: tuple[str, ...]) -> tuple[list[str], list[Finding]]:
    """Choose the models to probe if none are named, and report the others."""
    vendor = VENDORS.get(gateway.config.upstreams[name].vendor or "")
    wanted = upstreams.wanted_models(name, gateway.config)
    if name == DEMO:
        wanted = [DEMO]
    elif not wanted and (vendor is None or vendor.is_local):
        wanted = list(listed[:1])
    if not wanted:
        advice = "select models: --probe --model NAME"
        return [], [warn("model", "no model was probed: the configuration names none", advice, name)]
    if len(wanted) > MAX_PROBED:
        rest = f"{len(wanted) - MAX_PROBED} of {len(wanted)} models were not probed"
        return wanted[:MAX_PROBED], [warn("model", rest, "select models: --probe --model NAME", name)]
    return wanted, []


async def save_verdicts(
    probed: Sequence[ProbeResult], config: StoreConfig, environ: Mapping[str, str]
) -> list[Finding]:
    """Save the probe results. Vendors whose models all accept tools need none, and some stores keep nothing."""
    now = time()
    verdicts = [
        ToolVerdict(
            upstream=one.model.upstream.base_url,
            model=one.model.target.model,
            tools=one.tools,
            found=now,
            until=now + PROBE_TTL,
        )
        for one in probed
        if one.tools is not None and not one.model.upstream.native_tools
    ]
    path = config.path or str(default_path(environ, Path(environ.get("HOME") or "~").expanduser()))
    if path in (MEMORY, NO_STORE) and any(verdict.tools == "text" for verdict in verdicts):
        advice = "set the format in their sections: `tools = …`; otherwise they count as native until a request fails"
        where = "it is in memory only" if path == MEMORY else "there is none"
        return [warn("store", f"{where}: the need for text calls is not saved", advice)]
    if not verdicts or path in (MEMORY, NO_STORE):
        return []
    try:
        store = SqliteStore(path, max_bytes=config.max_bytes, max_age=config.max_age)
        try:
            for verdict in verdicts:
                await store.remember(verdict)
        finally:
            await store.close()
    except StoreError as error:
        advice = "the gateway will detect it at the first request with tools"
        return [warn("store", f"the results could not be saved: {error}", advice)]
    return [ok("store", "the tool modes of these models are saved for a month", path)]


CHECK = "mcp"


async def examine_servers(servers: Mapping[str, McpServerConfig]) -> list[Finding]:
    """Start or contact each server, and release it again."""
    if not servers:
        return []
    host = McpHost(servers)
    try:
        await host.start()
        await host.ready(servers)
        return [_finding(config, host.state(name), host.tools(name)) for name, config in servers.items()]
    except MissingExtraError as error:
        return [fail(CHECK, str(error))]
    finally:
        await host.close()


def _finding(config: McpServerConfig, state: ServerState, tools: tuple[ServerTool, ...]) -> Finding:
    if state.state != "ready":
        last = state.log.strip().splitlines()[-1:] or [""]
        advice = f"its last output: {last[0]}" if last[0] else "check its `command` or `url`"
        return fail(CHECK, state.why or "it did not respond in time", advice, state.name)
    counted = Counter(call_policy(config, tool) for tool in tools)
    what = f"{len(tools)} tools, MCP {state.protocol}: {counted['auto']} run automatically"
    if counted["ask"]:
        unasked = f"{what}, {counted['ask']} need approval, which the gateway cannot ask for"
        advice = (
            f'`policy = "auto"` under `mcp.servers.{state.name}`, or `alwaysAllow` in a file of `mcpServers`, lets the '
            "gateway run them"
        )
        return warn(CHECK, unasked, advice, state.name)
    return ok(CHECK, f"{what}, {counted['never']} never" if counted["never"] else what, state.name)
