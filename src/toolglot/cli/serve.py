"""`toolglot serve`: run the gateway in the foreground."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NoReturn

import click

from toolglot.cli.failures import BUG, FAILED, UNREADABLE
from toolglot.cli.parameters import upstream_key_option
from toolglot.config.addresses import DEMO_URL, is_loopback
from toolglot.config.problems import ConfigError, Problem
from toolglot.config.schema import LogConfig
from toolglot.dialects import DIALECTS
from toolglot.lint.report import visible
from toolglot.server import logs
from toolglot.server.security import UnsafeServerError
from toolglot.server.startup import StartedGateway, StartOptions

log = logging.getLogger("toolglot.server")


@click.command(short_help="Run the gateway.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one. Default: 4141.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file (TOML or YAML).")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="DIALECT=URL",
    help="Use only this upstream. Repeatable: the first one answers for every model.",
)
@upstream_key_option
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
    output = ServeOutput(is_json=log_format == "json", quiet=quiet)
    if key_env is not None and not os.environ.get(key_env):
        output.fail(f"--key-env: the environment variable {key_env} is not set", UNREADABLE)
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
    from toolglot.server.run import PortInUseError, merge_log_config
    from toolglot.server.workers.errors import GaveUpError
    from toolglot.server.workers.serve import run

    def greet(url: str, start: StartedGateway) -> None:
        if address_file is not None:
            address_file.write_text(url)
        log_config = merge_log_config(start.gateway.config.log, log_format, quiet)
        output.greet(_greeting_lines(url, start), is_json=not logs.is_text(log_config, sys.stderr))

    try:
        with _stray_failures_logged():
            run(start_options, os.environ, log_format=log_format, quiet=quiet, on_ready=greet)
    except ConfigError as error:
        output.fail(error.problems, UNREADABLE)
    except (UnsafeServerError, PortInUseError) as error:
        output.fail(str(error), UNREADABLE)
    except GaveUpError as error:
        output.fail(str(error), FAILED)
    except Exception as error:
        if not output.is_json:
            raise
        output.crash(error)


class ServeOutput:
    """The lines that `serve` itself prints on standard error: text for people, or JSON lines like those of the log."""

    def __init__(self, *, is_json: bool, quiet: bool) -> None:
        self.is_json, self._quiet = is_json, quiet
        if is_json:
            # Also active before the configuration is read, which may change the level and the secrets.
            logs.set_up(LogConfig(format="json", level="error" if quiet else "info"), tuple)

    def greet(self, lines: Iterable[str], *, is_json: bool) -> None:
        self.is_json = is_json
        for line in () if self._quiet else lines:
            click.echo(logs.format_message(" ".join(line.split())) if is_json else line, err=True)

    def fail(self, why: str | Sequence[Problem], status: int) -> NoReturn:
        for each in [why] if isinstance(why, str) else why:
            text = visible(str(each))
            click.echo(logs.format_message(text, "error") if self.is_json else f"toolglot: {text}", err=True)
        sys.exit(status)

    def crash(self, error: Exception) -> NoReturn:
        """Print an unexpected exception as one line, with its traceback."""
        trace = "".join(traceback.format_exception(error))
        message = f"internal error: {type(error).__name__}: {error}"
        click.echo(logs.format_message(message, "error", traceback=trace), err=True)
        sys.exit(BUG)


@contextmanager
def _stray_failures_logged() -> Iterator[None]:
    """Log exceptions of threads and destructors, which Python would print as text."""
    before = threading.excepthook, sys.unraisablehook
    threading.excepthook, sys.unraisablehook = _log_thread_failure, _log_unraisable
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = before


def _log_thread_failure(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None:
        name = failed.thread.name if failed.thread is not None else "unknown"
        log.error("a thread has failed: %s", name, exc_info=failed.exc_value)


def _log_unraisable(failed: sys.UnraisableHookArgs) -> None:
    log.error("%s: %r", failed.err_msg or "an exception was ignored", failed.object, exc_info=failed.exc_value)


def _greeting_lines(url: str, start: StartedGateway) -> Iterator[str]:
    """Yield the lines for a user who has just started a gateway."""
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
    if config.record.directory is not None:
        yield f"  recording exchanges in {config.record.directory}"
    if config.server.workers > 1:
        yield f"  {config.server.workers} workers"
    yield "  clients must send a key" if config.server.keys or config.team.enabled else "  any key is accepted"
    yield '  the model "demo" needs no upstream'
