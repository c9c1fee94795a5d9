"""From what the user said (a file, flags, the environment) to a gateway: at the start, and again at each reload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.addresses import leads_to
from toolglot.config.assemble import assemble, router
from toolglot.config.command_line import cli_config, parse_upstream
from toolglot.config.load import load
from toolglot.config.problems import ConfigError, Problem
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.dialects import find
from toolglot.errors import MissingExtraError
from toolglot.server.gateway import Gateway
from toolglot.upstream.demo.stream import AT_ONCE, HUMAN, Pace
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.discovery import Discovery, probe_local
from toolglot.upstream.tokens import tokens_of, with_tokens
from toolglot.upstream.transport import Transport
from toolglot.upstream.upstream import Upstream
from toolglot.upstream.vendors import VENDORS

LIMITS = {"warp": (50, 10)}
"""Messages and results of tools that an upstream of a dialect is sent at most, unless it is configured."""

_PACES: dict[str, Pace] = {"human": HUMAN, "none": AT_ONCE}


class Wishes(Struct, frozen=True, kw_only=True):
    """What the command line says. What it does not say, the file says; what that does not, the defaults."""

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
    """Files with `mcpServers` in them, beside those that the file names."""


class Start(Struct, frozen=True):
    """A gateway that is ready to serve, the file it came from, and what a person should know of it."""

    gateway: Gateway
    file: Path | None
    told: tuple[str, ...]


def configured(wishes: Wishes, environ: Mapping[str, str]) -> tuple[Config, Path | None, tuple[str, ...]]:
    """The configuration as the file and the flags have it. Raises `ConfigError`."""
    loaded = load(wishes.file, environ, mcp_files=wishes.mcp_files)
    config = loaded.config
    if wishes.upstreams:
        upstreams = [parse_upstream(text) for text in wishes.upstreams]
        config = cli_config(upstreams, wishes.key_variables, environ, config)
    server = replace(
        config.server,
        host=wishes.host or config.server.host,
        port=config.server.port if wishes.port is None else wishes.port,
        keys=wishes.keys or config.server.keys,
    )
    config = replace(config, server=server, strict=config.strict or wishes.strict)
    if wishes.discover is not None and not wishes.upstreams:
        config = replace(config, discover=wishes.discover)
    if wishes.store is not None:
        config = replace(config, store=replace(config.store, path=wishes.store))
    if wishes.demo_dialect is not None:
        demo = replace(config.upstreams.get("demo", UpstreamConfig()), dialect=wishes.demo_dialect)
        config = replace(config, upstreams={**config.upstreams, "demo": demo})
    return config, loaded.path, loaded.notes


async def start(
    wishes: Wishes,
    environ: Mapping[str, str],
    transport: Transport,
    *,
    own_port: int | None = None,
    before: Gateway | None = None,
) -> Start:
    """The gateway for these wishes. `own_port` is where it listens: it must not find itself. Raises `ConfigError`."""
    config, file, notes = configured(wishes, environ)
    own_port = own_port or config.server.port
    local = await probe_local(environ, own_port=own_port) if config.discover else Discovery()
    assembled = assemble(config, environ, local, own_port=own_port)
    _refuse_circles(assembled.config, own_port, file)
    try:
        gateway = build(assembled.config, transport, _PACES[wishes.demo_pace], before)
    except MissingExtraError as error:
        raise ConfigError([Problem(file=_origin(file), message=str(error))]) from None
    return Start(gateway, file, (*notes, *assembled.told))


def _refuse_circles(config: Config, own_port: int, file: Path | None) -> None:
    """A gateway that is its own upstream would ask itself until nothing is left."""
    for name, upstream in config.upstreams.items():
        if upstream.base_url is not None and leads_to(upstream.base_url, own_port):
            message = f"the upstream {name} leads to this gateway itself: {upstream.base_url}"
            raise ConfigError([Problem(file=_origin(file), message=message)])


def _origin(file: Path | None) -> str:
    return str(file) if file is not None else "--upstream"


def build(config: Config, transport: Transport, pace: Pace = AT_ONCE, before: Gateway | None = None) -> Gateway:
    """The gateway of an assembled configuration."""
    upstreams = {
        name: _upstream(name, upstream, transport, pace, before, many_keys=len(config.server.keys) > 1)
        for name, upstream in config.upstreams.items()
        if upstream.base_url is not None
    }
    return Gateway(config, upstreams, router(config), before)


def _upstream(
    name: str, config: UpstreamConfig, transport: Transport, pace: Pace, before: Gateway | None, *, many_keys: bool
) -> Upstream:
    dialect = find(config.dialect or "openai_chat")
    assert config.base_url is not None
    vendor = VENDORS.get(config.vendor or "")
    at_home = vendor is not None and vendor.base_url in (None, config.base_url)
    known = before.upstreams.get(name) if before is not None else None
    tokens = tokens_of(config, transport, None if known is None else known.tokens)
    max_messages, max_results = LIMITS.get(dialect.name, (0, 0))
    return Upstream(
        name=name,
        dialect=dialect,
        base_url=config.base_url,
        transport=DemoTransport(dialect, pace=pace) if config.base_url == "demo:" else with_tokens(transport, tokens),
        key=config.key,
        key_header=config.key_header,
        headers=config.headers,
        models=config.models,
        verbatim=config.verbatim if config.verbatim is not None else vendor is None or vendor.verbatim,
        # The upstream cannot tell our clients apart: where there are several, their state is kept here.
        keeps_state=not many_keys and vendor is not None and vendor.keeps_state and config.dialect == vendor.dialect,
        # Who merely imitates the vendor, at another address, may do less.
        native_tools=vendor.native_tools if vendor is not None and at_home else None,
        without_tools=vendor.without_tools if vendor is not None else (),
        listed=vendor.listed if vendor is not None and at_home else (),
        max_messages=max_messages if config.max_history_messages is None else config.max_history_messages,
        max_results=max_results if config.max_tool_results is None else config.max_tool_results,
        warp_history=config.warp_history,
        disable_warp_tools=config.disable_warp_tools,
        tokens=tokens,
        timeouts=config.timeouts,
        retries=config.retries,
        breaker=config.breaker,
    )
