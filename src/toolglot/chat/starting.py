"""From what the user said to what a chat needs: a gateway without a server, a model, and MCP servers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.addresses import DEMO_URL
from toolglot.config.assemble import assemble, complete
from toolglot.config.problems import ConfigError, Problem, did_you_mean
from toolglot.config.schema import Config, McpServerConfig, UpstreamConfig
from toolglot.errors import MissingExtraError
from toolglot.routing import DEMO, UnknownModelError
from toolglot.server.gateway import Gateway
from toolglot.server.starting import Wishes, build, configured
from toolglot.upstream.demo.stream import NO_PAUSES, TYPING_PACE
from toolglot.upstream.discovery import Discovery, probe_local
from toolglot.upstream.transport import Transport

EXAMPLE = "example"
"""The name of the bundled MCP server."""
DEMOS = {
    "demo-chat": "openai_chat",
    "demo-responses": "openai_responses",
    "demo-anthropic": "anthropic",
    "demo-gemini": "gemini",
}
"""The demo in each dialect, where there is nothing but the demo: so that a conversation can go from one to another."""


class Options(Struct, frozen=True, kw_only=True):
    """What the command line says of a chat."""

    wishes: Wishes = Wishes()
    model: str | None = None
    mcp: tuple[str, ...] = ()
    """The servers that are wanted; none named: all that are configured."""
    tools: bool = True
    example: bool | None = None
    """The bundled server; None: where there is no other, and the demo answers."""


class Begun(Struct, frozen=True, kw_only=True):
    """What a chat begins with, and what a person should know of it."""

    gateway: Gateway
    model: str
    servers: dict[str, McpServerConfig]
    told: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What of it is about tools that are not there: who wants nothing but an answer is told that, too."""


async def begin(options: Options, environ: Mapping[str, str], transport: Transport) -> Begun:
    """Raises `ConfigError`, also for a model or a server that does not exist."""
    config, file, notes = configured(options.wishes, environ)
    local = await probe_local(environ, own_port=config.server.port) if config.discover else Discovery()
    assembled = assemble(config, environ, local)
    is_demo = not assembled.config.upstreams.keys() - {DEMO}
    whole = _with_demos(assembled.config, environ) if is_demo else assembled.config
    told = ("This is the demo: rules, no model. A key in the environment, or a configuration, brings models.",)
    try:
        gateway = build(whole, transport, TYPING_PACE if options.wishes.demo_pace == "human" else NO_PAUSES)
    except MissingExtraError as error:
        raise _error(str(error), str(file or "--upstream")) from None
    model = options.model or _usual(gateway)
    servers, missing = _servers(options, gateway, model, str(file or "--config"))
    known = (*notes, *(told if is_demo else assembled.told), *missing)
    return Begun(gateway=gateway, model=model, servers=servers, told=known, missing=missing)


def _with_demos(config: Config, environ: Mapping[str, str]) -> Config:
    demos = {
        name: complete(name, UpstreamConfig(dialect=dialect, base_url=DEMO_URL, models=(name,)), environ)
        for name, dialect in DEMOS.items()
    }
    return replace(config, upstreams={**config.upstreams, **demos})


def _usual(gateway: Gateway) -> str:
    """The model when none is named: the first that the configuration names, else the demo."""
    config = gateway.config
    default = config.upstreams.get(config.default_upstream or "")
    if default is not None and default.default_model is not None:
        return f"{config.default_upstream}/{default.default_model}"
    is_real = (name for name in gateway.router.names() if not _is_demo(gateway, name))
    return next(is_real, DEMO)


def _is_demo(gateway: Gateway, model: str) -> bool:
    """Raises `ConfigError` where the name leads nowhere."""
    try:
        target = gateway.router.resolve(model)[0]
    except UnknownModelError as error:
        raise _error(str(error), "--model") from None
    return gateway.upstreams[target.upstream].base_url == DEMO_URL


def _servers(
    options: Options, gateway: Gateway, model: str, place: str
) -> tuple[dict[str, McpServerConfig], tuple[str, ...]]:
    """The servers to attach, and what is told of those that are not. `place` names those that are configured."""
    is_demo = _is_demo(gateway, model)
    if not options.tools:
        return {}, ()
    known = gateway.config.mcp.servers
    for name in options.mcp:
        if name not in known and name != EXAMPLE:
            raise _error(f"there is no MCP server `{name[:40]}`", "--mcp", did_you_mean(name, known))
    chosen = {name: server for name, server in known.items() if not options.mcp or name in options.mcp}
    wanted = options.example or EXAMPLE in options.mcp
    by_itself = options.example is None and not known and not options.mcp and is_demo
    has_sdk = importlib.util.find_spec("mcp") is not None
    if (wanted or by_itself) and EXAMPLE not in chosen:
        if has_sdk:
            return {**chosen, EXAMPLE: example_server()}, ()
        if by_itself:
            return {}, (str(MissingExtraError("The demo has no tools: its example server", "mcp", "mcp")),)
    if (chosen or wanted) and not has_sdk:
        asked = {"--mcp": options.mcp, "--example-tools": options.example, "--mcp-config": options.wishes.mcp_files}
        place = next((name for name, said in asked.items() if said), place)
        raise _error(str(MissingExtraError("an MCP server", "mcp", "mcp")), place)
    return chosen, ()


def example_server() -> McpServerConfig:
    """The bundled server, in a process of this Python. `-P`: whatever lies in this folder is none of its modules."""
    return McpServerConfig(command=sys.executable, args=("-P", "-m", "toolglot.agent.example_server"))


def _error(message: str, place: str, suggestion: str | None = None) -> ConfigError:
    return ConfigError([Problem(file=place, message=message, suggestion=suggestion)])
