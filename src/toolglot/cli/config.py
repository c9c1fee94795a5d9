"""`toolglot config`: check a file, print the schema, explain the route of a model name, create a file, or convert the
file of another gateway. All offline.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, get_args

import click
from msgspec.structs import asdict

from toolglot.cli.groups import Group
from toolglot.cli.parameters import UNREADABLE, SuggestingChoice, count_noun, exit_bad_config
from toolglot.config.assemble import Assembled, assemble, make_router
from toolglot.config.history_sections import explain_history
from toolglot.config.json_schema import text as schema_text
from toolglot.config.load import NAMES, Loaded, load_config
from toolglot.config.problems import ConfigError
from toolglot.config.record_checks import empty_places
from toolglot.config.schema import UpstreamConfig
from toolglot.config.template import template
from toolglot.lint.report import visible
from toolglot.routing import AUTO, DEMO, Target, UnknownModelError

file_argument = click.argument("file", type=click.Path(path_type=Path), required=False)
Gateway: TypeAlias = Literal["litellm", "claude-code-router"]
NO_FILE = "no configuration file: using the defaults"


@click.group(cls=Group)
def config() -> None:
    """Check, explain or create a configuration file."""


@config.command()
@file_argument
def check(file: Path | None) -> None:
    """Check FILE and report every problem. Default: ./toolglot.toml, .yaml or .yml, then the user's configuration."""
    loaded, assembled = _load_both(file)
    if loaded.doubts:
        exit_bad_config(loaded.doubts)
    whole = assembled.config
    upstreams = count_noun(len(whole.upstreams.keys() - {DEMO}), "upstream")
    place = visible(str(loaded.path)) if loaded.path else NO_FILE
    servers = f", {count_noun(len(whole.mcp.servers), 'MCP server')}" if whole.mcp.servers else ""
    click.echo(f"{place}: {upstreams}, {count_noun(len(loaded.config.models), 'model name')}{servers}: valid")
    for line in (*loaded.notes, *assembled.told, *empty_places(whole)):
        click.echo(f"  {visible(line)}")


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    click.echo(schema_text(), nl=False)


@config.command()
@click.argument("model")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file.")
def explain(model: str, file: Path | None) -> None:
    """Show where a request for MODEL goes, and why. Local servers are not contacted."""
    loaded, assembled = _load_both(file)
    click.echo(f"{visible(str(loaded.path)) if loaded.path else NO_FILE}")
    routes = make_router(assembled.config)
    for tried, said in routes.explain(model):
        click.echo(f"  {visible(tried)}: {visible(said)}")
    if assembled.config.discover:
        click.echo("  local servers: not contacted; `toolglot doctor` lists their models")
    try:
        targets = routes.resolve(model)
    except UnknownModelError as error:
        click.echo(f"toolglot: {visible(str(error))}", err=True)
        raise click.exceptions.Exit(UNREADABLE) from None
    for number, target in enumerate(targets):
        upstream = assembled.config.upstreams[target.upstream]
        label = "goes to" if number == 0 else "then to"
        place = f"{target.upstream} ({upstream.dialect} at {upstream.base_url})"
        click.echo(f"{label} {visible(target.model)} of {visible(place)}{_facts(target, upstream)}")
        for line in _upstream_settings(upstream):
            click.echo(f"  {line}")
        for line in explain_history(assembled.config, target):
            click.echo(f"  history: {visible(line)}")


def _facts(target: Target, upstream: UpstreamConfig) -> str:
    """Return the settings of a target that are not the defaults."""
    facts = {
        "window": target.context_window,
        "output": target.max_output_tokens,
        "strict": target.strict or None,
        "quirks": ", ".join(sorted(target.quirks)) or None,
        "tools": target.tools if target.tools != AUTO else None,
        "bad_calls": target.bad_calls if target.bad_calls != "pass" else None,
        "rescue": target.rescue or None,
        "starts_in_reasoning": target.starts_in_reasoning or None,
        "cache_marks": upstream.cache_marks if upstream.cache_marks != "auto" else None,
        "MCP servers": ", ".join(target.mcp) or None,
    }
    told = [f"{name} {value}" if value is not True else name for name, value in facts.items() if value is not None]
    return f"; {'; '.join(told)}" if told else ""


def _upstream_settings(upstream: UpstreamConfig) -> Iterator[str]:
    """Yield the members of a pool, and timeouts and retries that differ from the defaults."""
    for member in upstream.pool:
        group = f", quota group {member.quota_group}" if member.quota_group else ""
        yield visible(f"member {member.name}: at {member.base_url}, weight {member.weight:g}{group}")
    for name in ("timeouts", "retries", "breaker"):
        section = getattr(upstream, name)
        default = asdict(type(section)())
        changed = [f"{field} {value:g}" for field, value in asdict(section).items() if value != default[field]]
        if changed:
            yield f"{name}: {', '.join(changed)}"


@config.command()
@click.argument("file", type=click.Path(path_type=Path), default=NAMES[0])
def init(file: Path) -> None:
    """Create FILE (default: toolglot.toml) with every setting explained. An existing file is not overwritten."""
    _write_new(file, template())
    click.echo(f"{visible(str(file))}: written; check it with `toolglot config check`")


@config.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "gateway",
    type=SuggestingChoice(get_args(Gateway), {"ccr": "claude-code-router"}),
    help="The gateway that FILE belongs to: litellm or claude-code-router. Default: by its content.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write this file. Default: standard output.")
def import_(file: Path, gateway: Gateway | None, output: Path | None) -> None:
    """Convert FILE, a configuration of LiteLLM or claude-code-router. Reports settings that it cannot import.

    Credentials are not copied: the file refers to environment variables, which are listed.
    """
    from toolglot.config.importers.run import import_config

    try:
        imported = import_config(file, gateway)
    except ConfigError as error:
        exit_bad_config(error.problems)
    if output is None:
        click.echo(imported.text, nl=False)
    else:
        _write_new(output, imported.text)
    for problem in imported.reports:
        click.echo(f"toolglot: {visible(str(problem))}", err=True)
    counts = f"{count_noun(imported.upstreams, 'upstream')}, {count_noun(imported.models, 'model name')}"
    rest = count_noun(len(imported.reports), "setting")
    click.echo(f"{visible(str(output or file))}: {counts}; {rest} changed or not imported", err=True)
    if imported.variables:
        click.echo(f"environment variables that it needs: {', '.join(imported.variables)}", err=True)


def _write_new(file: Path, text: str) -> None:
    """Write a TOML file that does not exist yet."""
    if file.suffix != ".toml":
        _refuse(f"{file}: the name must end in .toml: the file is written as TOML")
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        _refuse(f"{file}: the file already exists and was not changed")
    except OSError as error:
        _refuse(f"{file}: {(error.strerror or str(error)).lower()}")


def _load_both(file: Path | None) -> tuple[Loaded, Assembled]:
    try:
        loaded = load_config(file, os.environ)
    except ConfigError as error:
        exit_bad_config(error.problems)
    return loaded, assemble(loaded.config, os.environ)


def _refuse(why: str) -> NoReturn:
    click.echo(f"toolglot: {visible(why)}", err=True)
    raise click.exceptions.Exit(UNREADABLE)
