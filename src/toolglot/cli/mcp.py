"""`toolglot mcp`: an MCP server with translation, the linter, the token counter and, if allowed, any model as tools."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from toolglot.cli.parameters import exit_bad_config
from toolglot.config.addresses import is_loopback
from toolglot.config.problems import ConfigError
from toolglot.errors import MissingExtraError
from toolglot.server.security import UnsafeServerError
from toolglot.server.startup import StartOptions

SDK = ("mcp", "mcp_types")
"""The packages of the extra."""


def _address(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Parse `HOST:PORT`, `[::1]:PORT`, or a port alone on this machine."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 127.0.0.1:4142")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


@click.command(short_help="Run an MCP server that offers translation tools.")
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    callback=_address,
    help="Serve Streamable HTTP on this address instead of standard input and output.",
)
@click.option(
    "--key-env", metavar="NAME", help="With --http: environment variable that holds the key clients must send."
)
@click.option("--allow-ask", is_flag=True, help="Also offer the tool `ask_model`, which queries any configured model.")
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="With --allow-ask: configuration file (TOML or YAML)."
)
@click.option(
    "--discover/--no-discover",
    default=None,
    help="With --allow-ask: look for API keys and local model servers, like `serve`.",
)
@click.option(
    "--ask-timeout",
    type=click.FloatRange(0, 86_400, min_open=True),
    metavar="SECONDS",
    help="With --allow-ask: time limit of one answer. Default: 300.",
)
@click.option(
    "--address-file", type=click.Path(dir_okay=False, path_type=Path), help="With --http: write the URL to this file."
)
@click.option("--example", is_flag=True, help="Offer a few harmless example tools instead.")
def mcp(
    address: tuple[str, int] | None,
    key_env: str | None,
    allow_ask: bool,
    file: Path | None,
    discover: bool | None,
    ask_timeout: float | None,
    address_file: Path | None,
    example: bool,
) -> None:
    """Run an MCP server that offers translation, the stream linter and the token counter as tools.

    An MCP client starts it and communicates over standard input and output. With --http it listens on a port; other
    machines can reach it only if clients must send a key.
    """
    _refuse_options({"--key-env": key_env, "--address-file": address_file}, address is not None, "--http")
    _refuse_options({"--config": file, "--discover": discover, "--ask-timeout": ask_timeout}, allow_ask, "--allow-ask")
    if key_env is not None and not os.environ.get(key_env, "").strip():
        raise click.UsageError(f"--key-env: the environment variable {key_env} is not set")
    if example and (address is not None or allow_ask):
        raise click.UsageError("--example cannot be combined with other options: it uses standard input and output")
    if address is None and sys.stdin.isatty():
        click.echo(_describe_terminal(example, allow_ask), err=True)
    try:
        if example:
            from toolglot.agent import example_server

            example_server.server.run()
            return
        from toolglot.tool_server.http import CannotListenError
        from toolglot.tool_server.serving import ToolServerOptions, run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SDK:
            raise
        _end(str(MissingExtraError("toolglot mcp", "mcp", "mcp")))

    def greet(url: str) -> None:
        if address_file is not None:
            address_file.write_text(url)
        click.echo(f"toolglot's tools are ready at {url}", err=True)
        click.echo("  clients must send a key" if key_env else "  for this machine only; no key needed", err=True)

    options = ToolServerOptions(
        address=address,
        keys=(os.environ[key_env],) if key_env else (),
        asks=StartOptions(file=file, discover=discover, demo_pace="none") if allow_ask else None,
        ask_timeout=ask_timeout or 300.0,
    )
    if address is not None and not is_loopback(address[0]) and key_env is None:
        _end(
            f"refusing to serve on {address[0]!r} without a key: anyone who can reach this machine could use it. "
            "Give one with --key-env NAME, or serve on 127.0.0.1"
        )
    try:
        run(options, os.environ, greet)
    except ConfigError as error:
        exit_bad_config(error.problems)
    except (UnsafeServerError, CannotListenError) as error:
        _end(str(error))


def _describe_terminal(example: bool, allow_ask: bool) -> str:
    """Explain the server to a person who started it in a terminal."""
    arguments = ["mcp", *(["--example"] if example else []), *(["--allow-ask"] if allow_ask else [])]
    entry = {"mcpServers": {"toolglot": {"command": "toolglot", "args": arguments}}}
    return (
        "This is an MCP server. It waits for an MCP client on standard input and is not interactive. Ctrl-C stops it."
        f"\nConfigure it in a client with:\n\n  {json.dumps(entry)}\n\n"
        f"In Claude Code: claude mcp add toolglot -- toolglot {' '.join(arguments)}\n"
        "To serve over HTTP: toolglot mcp --http 127.0.0.1:4142"
    )


def _refuse_options(options: dict[str, object], useful: bool, with_what: str) -> None:
    for name, value in options.items():
        if value is not None and not useful:
            raise click.UsageError(f"{name} requires {with_what}")


def _end(why: str) -> NoReturn:
    click.echo(f"toolglot: {why}", err=True)
    sys.exit(2)
