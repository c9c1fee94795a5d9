"""Build a chat from the command line: a gateway without a server, a model, and MCP servers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolglot.chat.model_choice import join_names
from toolglot.config.addresses import DEMO_URL
from toolglot.config.assemble import assemble, complete_upstream
from toolglot.config.problems import ConfigError, Problem, did_you_mean, one_of
from toolglot.config.schema import Config, McpServerConfig, UpstreamConfig
from toolglot.errors import MissingExtraError
from toolglot.gateway.gateway import Gateway
from toolglot.routing import DEMO, UnknownModelError, is_substitute
from toolglot.server.startup import StartOptions, build_gateway, load_options
from toolglot.upstream.demo.stream import NO_PAUSES, TYPING_PACE
from toolglot.upstream.discovery import Discovery, probe_local
from toolglot.upstream.transport import Transport

EXAMPLE_SERVER = "example"
"""The name of the bundled MCP server."""
DEMO_MODELS = {
    "demo-chat": "openai_chat",
    "demo-responses": "openai_responses",
    "demo-anthropic": "anthropic",
    "demo-gemini": "gemini",
}
"""The demo in each dialect, so that a conversation without other models can switch between them."""


ChooseModel: TypeAlias = Callable[[Sequence[str]], Awaitable[str]]
"""Asks the user for one of several models."""


class ChatOptions(Struct, frozen=True, kw_only=True):
    """The command line options of a chat."""

    start_options: StartOptions = StartOptions()
    model: str | None = None
    mcp: tuple[str, ...] = ()
    """The requested servers; empty: all configured ones."""
    tools: bool = True
    example: bool | None = None
    """Whether to attach the bundled server; None: only if there is no other server and the demo answers."""


class ChatSetup(Struct, frozen=True, kw_only=True):
    """The initial state of a chat, and notes for the user."""

    gateway: Gateway
    model: str
    servers: dict[str, McpServerConfig]
    told: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Notes about missing tools, shown even if only an answer is printed."""


async def prepare_chat(
    options: ChatOptions, environ: Mapping[str, str], transport: Transport, choose: ChooseModel | None = None
) -> ChatSetup:
    """Raises `ConfigError`, also for an unknown model or server, and if there are several models and no `choose`."""
    config, file, notes = load_options(options.start_options, environ)
    local = await probe_local(environ, own_port=config.server.port) if config.discover else Discovery()
    assembled = assemble(config, environ, local)
    is_demo = not assembled.config.upstreams.keys() - {DEMO}
    whole = _with_demos(assembled.config, environ) if is_demo else assembled.config
    told = ("This is the demo, which answers by rules. To use models, set an API key or write a configuration.",)
    try:
        gateway = build_gateway(
            whole, transport, TYPING_PACE if options.start_options.demo_pace == "human" else NO_PAUSES
        )
    except MissingExtraError as error:
        raise _error(str(error), str(file or "--upstream")) from None
    model = options.model or await _default_model(gateway, is_demo, choose)
    if not is_demo:
        await _require_named(gateway, model)
    servers, missing = _choose_servers(options, gateway, model, str(file or "--config"))
    known = (*notes, *(told if is_demo else assembled.told), *missing)
    return ChatSetup(gateway=gateway, model=model, servers=servers, told=known, missing=missing)


def _with_demos(config: Config, environ: Mapping[str, str]) -> Config:
    demos = {
        name: complete_upstream(name, UpstreamConfig(dialect=dialect, base_url=DEMO_URL, models=(name,)), environ)
        for name, dialect in DEMO_MODELS.items()
    }
    return replace(config, upstreams={**config.upstreams, **demos})


async def _default_model(gateway: Gateway, is_demo: bool, choose: ChooseModel | None) -> str:
    """Return the model to begin with: the configured default, the only one, the one that the user chooses, or the
    demo if there is none."""
    config = gateway.config
    default = config.upstreams.get(config.default_upstream or "")
    if default is not None and default.default_model is not None:
        return f"{config.default_upstream}/{default.default_model}"
    known = [] if is_demo else [model.name for model in await gateway.catalog.models()]
    names = [name for name in known if not _is_demo(gateway, name)]
    if len(names) < 2:
        return names[0] if names else DEMO
    if choose is None:
        raise _error(f"choose one of {len(names)} models: {join_names(names)}", "--model")
    return await choose(names)


async def _require_named(gateway: Gateway, model: str) -> None:
    """Check that the named model answers, and not a substitute. Raises `ConfigError`."""
    if _is_demo(gateway, model):
        return
    target = gateway.router.resolve(model)[0]
    if is_substitute(target, model):
        names = [known.name for known in await gateway.catalog.models() if known.name != DEMO]
        raise _error(f"{target.upstream} has no model `{model}`", "--model", one_of(model, names) if names else None)


def _is_demo(gateway: Gateway, model: str) -> bool:
    """Raises `ConfigError` for an unknown name."""
    try:
        target = gateway.router.resolve(model)[0]
    except UnknownModelError as error:
        raise _error(str(error), "--model") from None
    return gateway.upstreams[target.upstream].base_url == DEMO_URL


def _choose_servers(
    options: ChatOptions, gateway: Gateway, model: str, place: str
) -> tuple[dict[str, McpServerConfig], tuple[str, ...]]:
    """Return the servers to attach, and notes on those that are not. `place` names the configured ones."""
    is_demo = _is_demo(gateway, model)
    if not options.tools:
        return {}, ()
    known = gateway.config.mcp.servers
    for name in options.mcp:
        if name not in known and name != EXAMPLE_SERVER:
            raise _error(f"there is no MCP server `{name[:40]}`", "--mcp", did_you_mean(name, known))
    chosen = {name: server for name, server in known.items() if not options.mcp or name in options.mcp}
    wanted = options.example or EXAMPLE_SERVER in options.mcp
    by_itself = options.example is None and not known and not options.mcp and is_demo
    has_sdk = importlib.util.find_spec("mcp") is not None
    if (wanted or by_itself) and EXAMPLE_SERVER not in chosen:
        if has_sdk:
            return {**chosen, EXAMPLE_SERVER: example_server()}, ()
        if by_itself:
            return {}, (str(MissingExtraError("The demo has no tools: its example server", "mcp", "mcp")),)
    if (chosen or wanted) and not has_sdk:
        asked = {
            "--mcp": options.mcp,
            "--example-tools": options.example,
            "--mcp-config": options.start_options.mcp_files,
        }
        place = next((name for name, said in asked.items() if said), place)
        raise _error(str(MissingExtraError("an MCP server", "mcp", "mcp")), place)
    return chosen, ()


def example_server() -> McpServerConfig:
    """Return the bundled server, run by this Python. `-P`: the current folder is not on its module path."""
    return McpServerConfig(command=sys.executable, args=("-P", "-m", "toolglot.agent.example_server"))


def _error(message: str, place: str, suggestion: str | None = None) -> ConfigError:
    return ConfigError([Problem(file=place, message=message, suggestion=suggestion)])
