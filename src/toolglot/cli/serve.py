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
@click.option("--host", help="Where to listen. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Default: 4141; 0 takes a free one.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="toolglot.toml or .yaml.")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="DIALECT=URL",
    help="Send all that nothing else claims there. Repeatable.",
)
@click.option(
    "--upstream-key-env", "key_variables", multiple=True, metavar="NAME", help="The variable with that upstream's key."
)
@click.option("--key-env", metavar="NAME", help="The variable with the key that clients must show.")
@click.option("--strict", is_flag=True, help="Refuse what would lose something in translation.")
@click.option("--discover/--no-discover", default=None, help="Look for keys in the environment and for local servers.")
@click.option("--demo-dialect", metavar="DIALECT", help="The dialect that the demo upstream speaks.")
@click.option("--demo-pace", type=click.Choice(["human", "none"]), default="human", help="How fast the demo streams.")
@click.option(
    "--store", metavar="FILE", help="Where responses are stored; `:memory:` forgets them at the end, `none` at once."
)
@click.option(
    "--replay-speed", type=click.Choice(["none", "real"]), help="How fast `replay:` upstreams answer. Default: none."
)
@click.option("--record", metavar="DIR", help="Record every exchange in a file of its own in this folder.")
@click.option(
    "--mcp-config",
    "mcp_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with `mcpServers` in it. Repeatable.",
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes that serve. Default: 1.")
@click.option("--log", "log_format", type=click.Choice(["auto", "json", "text"]), help="The form of the log.")
@click.option("--address-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the URL there when ready.")
@click.option("--quiet", is_flag=True, help="Log errors alone.")
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
    """Run the gateway: every client's API in front, any model behind.

    Without a file and without flags it uses the keys it finds in the environment and the servers it finds on this
    machine; the model `demo` is always there and needs neither.
    """
    if key_env is not None and not os.environ.get(key_env):
        raise click.UsageError(f"--key-env: the environment has no {key_env}")
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
        yield f"  configured by {start.file}"
    yield from (f"  {line}" for line in start.notices)
    for name, upstream in start.gateway.upstreams.items():
        if upstream.base_url != DEMO_URL:
            default = ", for every model that nothing else claims" if name == config.default_upstream else ""
            yield f"  upstream {name}: {upstream.dialect.name} at {upstream.base_url}{default}"
    yield f"toolglot is ready at {url}"
    if not is_loopback(config.server.host):
        yield f"  it listens on {config.server.host}, for other machines too"
    for manifest in DIALECTS.manifests.values():
        if manifest.client:
            yield f"  {manifest.client.format(url=url)}"
    if config.record.directory is not None and _can_be_written(Path(config.record.directory).expanduser()):
        yield f"  exchanges are recorded in {config.record.directory}"
    if config.server.workers > 1:
        yield f"  {config.server.workers} workers answer"
    yield "  clients must show a key" if config.server.keys else "  any key will do"
    yield '  the model "demo" needs no upstream'


def _can_be_written(folder: Path) -> bool:
    """Tell whether recordings can be written there. If not, the log has just said so."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
