"""`toolglot serve`: the gateway in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import click

from toolglot.cli.parameters import exit_bad_config
from toolglot.config.addresses import DEMO_URL, is_loopback
from toolglot.config.problems import ConfigError
from toolglot.dialects import DIALECTS
from toolglot.server.security import UnsafeServerError
from toolglot.server.startup import StartedGateway, StartOptions


@click.command(short_help="Run the gateway.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one. Default: 4141.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file (TOML or YAML).")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="DIALECT=URL",
    help="Send every model without another route to this upstream. Repeatable.",
)
@click.option(
    "--upstream-key-env",
    "key_variables",
    multiple=True,
    metavar="NAME",
    help="Environment variable that holds this upstream's API key.",
)
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the key clients must send.")
@click.option("--strict", is_flag=True, help="Reject requests and responses that would lose data in translation.")
@click.option(
    "--discover/--no-discover", default=None, help="Look for API keys in the environment and for local model servers."
)
@click.option("--demo-dialect", metavar="DIALECT", help="Dialect of the demo upstream.")
@click.option(
    "--demo-pace", type=click.Choice(["human", "none"]), default="human", help="Streaming speed of the demo upstream."
)
@click.option(
    "--store",
    metavar="FILE",
    help="SQLite file for stored responses; `:memory:` keeps them until exit, `none` stores nothing.",
)
@click.option(
    "--replay-speed",
    type=click.Choice(["none", "real"]),
    help="Speed of `replay:` upstreams: `none` adds no delay, `real` uses the recorded timing. Default: none.",
)
@click.option("--record", metavar="DIR", help="Record each exchange to a separate file in this directory.")
@click.option(
    "--mcp-config",
    "mcp_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="JSON file with `mcpServers`. Repeatable.",
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Number of worker processes. Default: 1.")
@click.option(
    "--log",
    "log_format",
    type=click.Choice(["auto", "json", "text"]),
    help="Log format; `auto` is text on a terminal, JSON otherwise.",
)
@click.option(
    "--address-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the URL to this file when the gateway is ready.",
)
@click.option("--quiet", is_flag=True, help="Log errors only.")
def serve(
    host: str | None,
    port: int | None,
    file: Path | None,
    upstreams: tuple[str, ...],
    key_variables: tuple[str, ...],
    key_env: str | None,
    strict: bool,
    discover: bool | None,
    demo_dialect: str | None,
    demo_pace: str,
    store: str | None,
    replay_speed: Literal["none", "real"] | None,
    record: str | None,
    mcp_files: tuple[Path, ...],
    workers: int | None,
    log_format: str | None,
    address_file: Path | None,
    quiet: bool,
) -> None:
    """Run the gateway. It accepts requests in every supported API and forwards them to any model.

    Without a configuration file or options, it uses the API keys in the environment and the model servers on this
    machine. The model `demo` is always available and needs neither.
    """
    if key_env is not None and not os.environ.get(key_env):
        raise click.UsageError(f"--key-env: the environment variable {key_env} is not set")
    start_options = StartOptions(
        file=file,
        upstreams=upstreams,
        key_variables=key_variables,
        host=host,
        port=port,
        keys=(os.environ[key_env],) if key_env is not None else (),
        strict=strict,
        discover=discover,
        demo_dialect=demo_dialect,
        demo_pace=demo_pace,
        store=store,
        replay_speed=replay_speed,
        record=record,
        mcp_files=mcp_files,
        workers=workers,
    )
    from toolglot.server.run import PortInUseError
    from toolglot.server.workers.errors import GaveUpError
    from toolglot.server.workers.serve import run

    try:
        run(start_options, os.environ, log_format=log_format, quiet=quiet, on_ready=_greeting(quiet, address_file))
    except ConfigError as error:
        exit_bad_config(error.problems)
    except (UnsafeServerError, PortInUseError) as error:
        click.echo(f"toolglot: {error}", err=True)
        sys.exit(2)
    except GaveUpError as error:
        click.echo(f"toolglot: {error}", err=True)
        sys.exit(1)


def _greeting(quiet: bool, address_file: Path | None) -> Callable[[str, StartedGateway], None]:
    def greet(url: str, start: StartedGateway) -> None:
        if address_file is not None:
            address_file.write_text(url)
        if quiet:
            return
        for line in _greeting_lines(url, start):
            click.echo(line, err=True)

    return greet


def _greeting_lines(url: str, start: StartedGateway) -> Iterator[str]:
    """Yield what a user who has just started a gateway wants to know."""
    config = start.gateway.config
    if start.file is not None:
        yield f"  configuration: {start.file}"
    yield from (f"  {line}" for line in start.notices)
    for name, upstream in start.gateway.upstreams.items():
        if upstream.base_url != DEMO_URL:
            default = ", for every model without another route" if name == config.default_upstream else ""
            yield f"  upstream {name}: {upstream.dialect.name} at {upstream.base_url}{default}"
    yield f"toolglot is ready at {url}"
    if not is_loopback(config.server.host):
        yield f"  listening on {config.server.host}, open to other machines"
    for manifest in DIALECTS.manifests.values():
        if manifest.client:
            yield f"  {manifest.client.format(url=url)}"
    if config.record.directory is not None and _can_be_written(Path(config.record.directory).expanduser()):
        yield f"  recording exchanges in {config.record.directory}"
    if config.server.workers > 1:
        yield f"  {config.server.workers} workers"
    yield "  clients must send a key" if config.server.keys else "  any key is accepted"
    yield '  the model "demo" needs no upstream'


def _can_be_written(folder: Path) -> bool:
    """Tell whether recordings can be written there. If not, the log has just said so."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
