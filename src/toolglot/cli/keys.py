"""`toolglot keys`: create and manage the keys of a team."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import get_terminal_size
from time import time
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from toolglot.cli.groups import Group
from toolglot.cli.parameters import UNREADABLE
from toolglot.cli.pretty_json import pretty_json
from toolglot.cli.table import render_table
from toolglot.config.load import load_config
from toolglot.lint.report import visible
from toolglot.store import StoreError
from toolglot.team.administration import (
    OVERLAP,
    AdministrationError,
    Administrator,
    CreatedKey,
    KeyChanges,
    describe_key,
)
from toolglot.team.keys import ApiKey, KeySecret
from toolglot.team.service import open_database

T = TypeVar("T")
_DURATION = re.compile(r"([0-9]+)\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

config_option = click.option(
    "--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file (TOML or YAML)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Duration(click.ParamType[float]):
    """A number of seconds, parsed from `30d`, `12h`, `90m` or `45s`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration; examples: 90m, 12h, 30d", param, ctx)
        return float(int(found[1]) * _UNITS[found[2]])


@click.group(cls=Group)
def keys() -> None:
    """Create and manage the keys of a team.

    The gateway accepts them if `enabled = true` is set under [team] in its configuration. Changes take effect within a
    second; no restart is needed.
    """


def _limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--owner", help="Person or program that uses the key."),
            click.option("--team", help="Team of the owner."),
            click.option("--tag", "tags", multiple=True, help="Tag. Repeatable."),
            click.option("--expires", type=Duration(), help="Time until the key expires, for example 30d."),
            click.option(
                "--model",
                "models",
                multiple=True,
                help="Model or pattern that the key may use: `claude-*`. Repeatable.",
            ),
            click.option("--upstream", "upstreams", multiple=True, help="Upstream that the key may use. Repeatable."),
            click.option("--mcp", "mcp_servers", multiple=True, help="MCP server that the key may use. Repeatable."),
            click.option("--requests-per-minute", type=click.IntRange(0)),
            click.option("--tokens-per-minute", type=click.IntRange(0)),
            click.option("--concurrent-requests", type=click.IntRange(0)),
            click.option("--tokens-per-day", type=click.IntRange(0)),
            click.option("--tokens-per-month", type=click.IntRange(0)),
            click.option("--usd-per-day", type=click.FloatRange(0), help="Budget for each day (UTC)."),
            click.option("--usd-per-month", type=click.FloatRange(0), help="Budget for each calendar month (UTC)."),
            click.option(
                "--unknown-price",
                type=click.Choice(["deny", "allow"]),
                help="Policy for models without a known price, if the key has a budget in USD.",
            ),
        )
    ):
        function = option(function)
    return function


@keys.command()
@click.argument("name")
@_limit_options
@config_option
@json_option
def create(name: str, file: Path | None, as_json: bool, **given: Any) -> None:
    """Create the key NAME and print its secret, which is shown only once."""
    changes = _read_changes(given)
    created = _administer(file, lambda team: team.create(name, changes, time()))
    _show_created(created, as_json)


@keys.command("list")
@config_option
@json_option
def list_(file: Path | None, as_json: bool) -> None:
    """List all keys."""

    async def all_keys(team: Administrator) -> list[tuple[ApiKey, list[KeySecret]]]:
        found = await team.list_keys()
        while found and (more := await team.list_keys(after=found[-1][0].name)):
            found += more
        return found

    found = _administer(file, all_keys)
    if as_json:
        click.echo(_to_json([describe_key(key, secrets) for key, secrets in found]))
    elif not found:
        click.echo("no keys; `toolglot keys create NAME` creates one")
    else:
        rows = [_row(key, secrets) for key, secrets in found]
        head = ("name", "status", "prefix", "owner", "last used", "limits")
        click.echo("\n".join(render_table(head, rows, get_terminal_size().columns, ruled=False)))


@keys.command()
@click.argument("name")
@config_option
@json_option
def show(name: str, file: Path | None, as_json: bool) -> None:
    """Show the key NAME with its limits. NAME may also be an id."""

    async def find(team: Administrator) -> tuple[ApiKey, list[KeySecret]]:
        key = await team.find(name)
        return key, await team.secrets(key)

    described = describe_key(*_administer(file, find))
    click.echo(_to_json(described) if as_json else "\n".join(_describe(described)))


@keys.command()
@click.argument("name")
@_limit_options
@click.option("--no-limit", "unlimited", multiple=True, help="Limit to remove, for example usd-per-day. Repeatable.")
@config_option
@json_option
def change(name: str, unlimited: Sequence[str], file: Path | None, as_json: bool, **given: Any) -> None:
    """Change fields of the key NAME. Other fields stay unchanged."""
    changes = _read_changes(given)
    for limit in unlimited:
        field = limit.replace("-", "_")
        if field not in KeyChanges.__struct_fields__ or not field.endswith(("_minute", "_day", "_month", "_requests")):
            raise click.UsageError(f"--no-limit: unknown limit {limit!r}")
        setattr(changes, field, None)
    key = _administer(file, lambda team: team.change(name, changes, time()))
    click.echo(_to_json(describe_key(key)) if as_json else f"{key.name}: changed")


@keys.command()
@click.argument("name")
@click.option("--overlap", type=Duration(), default=OVERLAP, help="How long old secrets stay valid. Default: 24h.")
@config_option
@json_option
def rotate(name: str, overlap: float, file: Path | None, as_json: bool) -> None:
    """Give the key NAME a new secret. Its limits and its spend stay."""
    _show_created(_administer(file, lambda team: team.rotate(name, time(), overlap)), as_json)


@keys.command()
@click.argument("name")
@config_option
def revoke(name: str, file: Path | None) -> None:
    """Revoke the key NAME permanently. It stops working within a second."""
    click.echo(f"{_administer(file, lambda team: team.set_status(name, 'revoked', time())).name}: revoked")


@keys.command()
@click.argument("name")
@config_option
def suspend(name: str, file: Path | None) -> None:
    """Suspend the key NAME until `resume`."""
    click.echo(f"{_administer(file, lambda team: team.set_status(name, 'suspended', time())).name}: suspended")


@keys.command()
@click.argument("name")
@config_option
def resume(name: str, file: Path | None) -> None:
    """Resume the suspended key NAME."""
    click.echo(f"{_administer(file, lambda team: team.set_status(name, 'active', time())).name}: active")


def _read_changes(given: dict[str, Any]) -> KeyChanges:
    fields = {name: value for name, value in given.items() if value not in (None, ())}
    if "expires" in fields:
        fields["expires"] = datetime.now(UTC) + timedelta(seconds=fields["expires"])
    return KeyChanges(**fields)


def _administer(file: Path | None, work: Callable[[Administrator], Awaitable[T]]) -> T:
    """Run an operation on the configured database."""
    config = load_config(file, os.environ).config.team

    async def run() -> T:
        database = await open_database(config, os.environ)
        try:
            return await work(Administrator(database, _actor(), config.pepper))
        finally:
            await database.close()

    try:
        result = asyncio.run(run())
    except (AdministrationError, StoreError) as error:
        _refuse(str(error))
    if not config.enabled:
        click.echo(
            "toolglot: note: the gateway does not accept these keys yet: set `enabled = true` under [team]", err=True
        )
    return result


def _to_json(value: object) -> str:
    return pretty_json(msgspec.json.encode(value))


def _actor() -> str:
    """Return the user who runs the command, for the audit log."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):
        return "cli"


def _refuse(why: str) -> NoReturn:
    click.echo(f"toolglot: {visible(why)}", err=True)
    raise click.exceptions.Exit(UNREADABLE)


def _show_created(created: CreatedKey, as_json: bool) -> None:
    if as_json:
        click.echo(_to_json({**describe_key(created.key), "secret": created.secret}))
        return
    click.echo(created.secret)
    click.echo(f"toolglot: this is the secret of {created.key.name}; it is not shown again", err=True)


def _row(key: ApiKey, secrets: Sequence[KeySecret]) -> tuple[str, ...]:
    described = describe_key(key)
    prefix = secrets[-1].prefix if secrets else "-"
    return (
        key.name,
        key.status,
        prefix,
        key.owner or "-",
        described["last_used"] or "never",
        _limits(described) or "-",
    )


_LIMITS = {
    "requests_per_minute": "{} requests/min",
    "tokens_per_minute": "{} tokens/min",
    "concurrent_requests": "{} at once",
    "tokens_per_day": "{} tokens/day",
    "tokens_per_month": "{} tokens/month",
    "usd_per_day": "${:g}/day",
    "usd_per_month": "${:g}/month",
}


def _limits(described: dict[str, Any]) -> str:
    return ", ".join(form.format(described[name]) for name, form in _LIMITS.items() if described[name] is not None)


def _describe(described: dict[str, Any]) -> list[str]:
    shown = {
        name: value
        for name, value in described.items()
        if name not in _LIMITS and name != "secrets" and value not in (None, "", [])
    }
    shown["limits"] = _limits(described) or "none"
    width = max(map(len, shown))
    lines = [
        f"{name.replace('_', ' '):{width}}  {visible(', '.join(value) if isinstance(value, list) else str(value))}"
        for name, value in shown.items()
    ]
    for secret in described["secrets"]:
        until = f", valid until {secret['not_after']}" if secret["not_after"] else ""
        lines.append(f"{'secret':{width}}  {secret['prefix']}…, created {secret['created']}{until}")
    return lines
