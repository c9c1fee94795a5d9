"""Building a gateway from a configuration file, command line and environment: at start and at each reload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.addresses import is_replay, leads_to, recordings_of
from toolglot.config.assemble import assemble, make_router
from toolglot.config.command_line import cli_config, parse_upstream
from toolglot.config.history_sections import upstream_sections
from toolglot.config.load import load_config
from toolglot.config.problems import ConfigError, Problem
from toolglot.config.record_checks import directory_problem, empty_places, place_problem
from toolglot.config.schema import Config, Limits, ReplaySpeed, UpstreamConfig
from toolglot.dialect import Dialect
from toolglot.dialects import DEFAULT, find
from toolglot.errors import MissingExtraError
from toolglot.gateway.features.issuer import hash_issuer
from toolglot.gateway.gateway import Gateway
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.upstream.bearer_tokens import RefreshingToken, configured_token, with_tokens
from toolglot.upstream.demo.stream import NO_PAUSES, TYPING_PACE, DemoPace
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.discovery import Discovery, probe_local
from toolglot.upstream.replay.transport import ReplayTransport
from toolglot.upstream.transport import Transport
from toolglot.upstream.upstream import Upstream
from toolglot.upstream.vendors import VENDORS

_PACES: dict[str, DemoPace] = {"human": TYPING_PACE, "none": NO_PAUSES}


class StartOptions(Struct, frozen=True, kw_only=True):
    """Options of the command line. They take precedence over the file, which takes precedence over the defaults."""

    file: Path | None = None
    upstreams: tuple[str, ...] = ()
    """Each `DIALECT=URL`."""
    key_variables: tuple[str, ...] = ()
    host: str | None = None
    port: int | None = None
    keys: tuple[str, ...] = ()
    strict: bool = False
    discover: bool | None = None
    demo_dialect: str | None = None
    demo_pace: str = "human"
    store: str | None = None
    mcp_files: tuple[Path, ...] = ()
    """Files with `mcpServers`, in addition to those that the configuration file names."""
    record: str | None = None
    """The folder for recordings."""
    replay_speed: ReplaySpeed | None = None
    """Speed of `replay:` upstreams."""
    workers: int | None = None
    shares: int = 1
    """Number of serving processes. Each gets its share of the limits."""


class StartedGateway(Struct, frozen=True):
    """A gateway that is ready to serve, its configuration file, and notices for the user."""

    gateway: Gateway
    file: Path | None
    notices: tuple[str, ...]


def load_options(options: StartOptions, environ: Mapping[str, str]) -> tuple[Config, Path | None, tuple[str, ...]]:
    """Load the configuration from file and options. Returns it with its file and notices. Raises `ConfigError`."""
    loaded = load_config(options.file, environ, mcp_files=options.mcp_files)
    config = loaded.config
    if options.upstreams:
        upstreams = [parse_upstream(text) for text in options.upstreams]
        config = cli_config(upstreams, options.key_variables, environ, config)
    server = replace(
        config.server,
        host=options.host or config.server.host,
        port=config.server.port if options.port is None else options.port,
        keys=options.keys or config.server.keys,
        workers=options.workers or config.server.workers,
    )
    config = replace(config, server=server, strict=config.strict or options.strict)
    config = replace(config, limits=_divide_limits(config.limits, options.shares))
    if options.discover is not None and not options.upstreams:
        config = replace(config, discover=options.discover)
    if options.store is not None:
        config = replace(config, store=replace(config.store, path=options.store))
    if options.record is not None:
        if problem := directory_problem(options.record):
            raise ConfigError([Problem(file="--record", message=problem)])
        config = replace(config, record=replace(config.record, directory=options.record))
    if (speed := options.replay_speed) is not None:
        paced = {name: replace(upstream, replay_speed=speed) for name, upstream in config.upstreams.items()}
        config = replace(config, upstreams=paced)
    if options.demo_dialect is not None:
        demo = replace(config.upstreams.get("demo", UpstreamConfig()), dialect=options.demo_dialect)
        config = replace(config, upstreams={**config.upstreams, "demo": demo})
    return config, loaded.path, loaded.notes


def _divide_limits(limits: Limits, shares: int) -> Limits:
    """Divide the limits among several processes."""
    counted = ("connections", "concurrent_requests", "upstream_connections", "bodies")
    return replace(limits, **{name: -(-getattr(limits, name) // shares) for name in counted})


async def start_gateway(
    options: StartOptions,
    environ: Mapping[str, str],
    transport: Transport,
    *,
    own_port: int | None = None,
    before: Gateway | None = None,
    local: Discovery | None = None,
) -> StartedGateway:
    """Build the gateway for these options. Raises `ConfigError`.

    `own_port` is where it listens, so that discovery does not find the gateway itself. `local` holds the result of an
    earlier discovery on this machine.
    """
    config, file, notes = load_options(options, environ)
    own_port = own_port or config.server.port
    if local is None:
        local = await probe_local(environ, own_port=own_port) if config.discover else Discovery()
    assembled = assemble(config, environ, local, own_port=own_port)
    _refuse_self_upstream(assembled.config, own_port, file)
    _refuse_missing_recordings(assembled.config, file)
    try:
        gateway = build_gateway(assembled.config, transport, _PACES[options.demo_pace], before)
    except MissingExtraError as error:
        raise ConfigError([Problem(file=_origin(file), message=str(error))]) from None
    notices = (*notes, *assembled.told, *empty_places(assembled.config), *_describe_mcp_servers(assembled.config))
    return StartedGateway(gateway, file, notices)


def _describe_mcp_servers(config: Config) -> list[str]:
    """Describe the MCP servers and how requests get them."""
    if not config.mcp.servers:
        return []
    given = {name for model in config.models.values() for name in model.mcp}
    left = [name for name in config.mcp.servers if name not in given]
    how = f"; {', '.join(left)} only with the header x-toolglot-mcp: no model has it under `mcp`" if left else ""
    if config.server.workers > 1 and any(server.command for server in config.mcp.servers.values()):
        how += f"; those with a command are started {config.server.workers} times, once for each worker"
    return [f"MCP servers: {', '.join(config.mcp.servers)}{how}"]


def _refuse_self_upstream(config: Config, own_port: int, file: Path | None) -> None:
    """Refuse a gateway that is its own upstream: it would call itself endlessly."""
    urls = [(name, url) for name, upstream in config.upstreams.items() for url in _urls_of(upstream)]
    for name, url in urls:
        if leads_to(url, own_port):
            message = f"the upstream {name} leads to this gateway itself: {url}"
            raise ConfigError([Problem(file=_origin(file), message=message)])


def _urls_of(upstream: UpstreamConfig) -> tuple[str, ...]:
    return tuple(url for url in (upstream.base_url, *(member.base_url for member in upstream.pool)) if url is not None)


def _refuse_missing_recordings(config: Config, file: Path | None) -> None:
    """Refuse a replay upstream whose recordings do not exist."""
    urls = [(name, url) for name, upstream in config.upstreams.items() for url in _urls_of(upstream)]
    for name, url in urls:
        if message := place_problem(name, url):
            raise ConfigError([Problem(file=_origin(file), message=message)])


def _origin(file: Path | None) -> str:
    return str(file) if file is not None else "--upstream"


def build_gateway(
    config: Config, transport: Transport, pace: DemoPace = NO_PAUSES, before: Gateway | None = None
) -> Gateway:
    """Build the gateway of an assembled configuration."""
    has_team = config.team.enabled if before is None else before.team.enabled
    many_keys, history = has_team or len(config.server.keys) > 1, config.history
    build = partial(
        _build_upstream, transport=transport, pace=pace, before=before, many_keys=many_keys, history=history
    )
    members = {
        name: _build_members(name, upstream, build) if upstream.pool else (build(name, upstream),)
        for name, upstream in config.upstreams.items()
        if upstream.base_url is not None
    }
    upstreams = {name: first for name, (first, *_) in members.items()}
    for upstream in (each for several in members.values() for each in several):
        if isinstance(upstream.transport, ReplayTransport):
            upstream.transport.redact(config.record.redact)
    pools = {name: several for name, several in members.items() if config.upstreams[name].pool}
    return Gateway(config, upstreams, make_router(config), before, pools=pools)


def _build_members(
    name: str, config: UpstreamConfig, build: Callable[[str, UpstreamConfig], Upstream]
) -> tuple[Upstream, ...]:
    """Build the members of a pool. State goes back to members of the same account only."""
    members = []
    for member in config.pool:
        own = replace(config, key=member.key, base_url=member.base_url, headers=member.headers)
        upstream = replace(build(name, own), member=member.name or "")
        members.append(replace(upstream, account=member.quota_group or hash_issuer(upstream)))
    return tuple(members)


def _build_upstream(
    name: str,
    config: UpstreamConfig,
    *,
    transport: Transport,
    pace: DemoPace,
    before: Gateway | None,
    many_keys: bool,
    history: HistoryPolicy,
) -> Upstream:
    dialect = find(config.dialect or DEFAULT)
    assert config.base_url is not None
    vendor = VENDORS.get(config.vendor or "")
    at_home = vendor is not None and vendor.base_url in (None, config.base_url)
    known = before.upstreams.get(name) if before is not None else None
    tokens = configured_token(config, transport, None if known is None else known.tokens)
    return Upstream(
        name=name,
        dialect=dialect,
        base_url=config.base_url,
        transport=_choose_transport(config, dialect, transport, pace, known, tokens),
        vendor=config.vendor,
        key=config.key,
        key_header=config.key_header,
        headers=config.headers,
        models=config.models,
        verbatim=config.verbatim if config.verbatim is not None else vendor is None or vendor.verbatim,
        # The upstream cannot distinguish our clients: if there are several, the gateway keeps their state.
        # The members of a pool do not know the responses of each other.
        keeps_state=not (many_keys or config.pool)
        and vendor is not None
        and vendor.keeps_state
        and config.dialect == vendor.dialect,
        # A compatible server at another address may support less than the vendor.
        native_tools=vendor.native_tools if vendor is not None and at_home else None,
        without_tools=vendor.without_tools if vendor is not None else (),
        listed=vendor.listed if vendor is not None and at_home else (),
        history=tuple(section.layer for section in upstream_sections(name, config, history)),
        cache_marks=config.cache_marks,
        warp_history=config.warp_history,
        disable_warp_tools=config.disable_warp_tools,
        tokens=tokens,
        timeouts=config.timeouts,
        # A replay needs no wait between retries.
        retries=replace(config.retries, first_wait=0.0) if _replays_at_once(config) else config.retries,
        breaker=config.breaker,
    )


def _replays_at_once(config: UpstreamConfig) -> bool:
    return is_replay(config.base_url) and config.replay_speed == "none"


def _choose_transport(
    config: UpstreamConfig,
    dialect: Dialect,
    transport: Transport,
    pace: DemoPace,
    known: Upstream | None,
    tokens: RefreshingToken | None,
) -> Transport:
    """Choose the transport of an upstream: HTTP, the demo or recordings."""
    if config.base_url == "demo:":
        return DemoTransport(dialect, pace=pace)
    if not is_replay(config.base_url):
        return with_tokens(transport, tokens)
    before = None if known is None or known.base_url != config.base_url else known.transport
    if isinstance(before, ReplayTransport) and (before.dialect, before.speed) == (dialect, config.replay_speed):
        return before  # a reload continues the replay
    return ReplayTransport(dialect, Path(recordings_of(config.base_url or "")), speed=config.replay_speed)
