"""`toolglot spend`: show the usage and cost of keys as a table, CSV, JSON or a plot."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click
import msgspec
from msgspec.structs import asdict

from toolglot.cli.output import open_output
from toolglot.cli.parameters import UNREADABLE
from toolglot.cli.pretty_json import pretty_json
from toolglot.cli.table import render_table
from toolglot.config.load import load_config
from toolglot.lint.report import visible
from toolglot.prices import format_usd, to_decimal
from toolglot.store import StoreError
from toolglot.team import sql
from toolglot.team.reports import describe_spend
from toolglot.team.service import open_database
from toolglot.team.spend_plot import draw_spend
from toolglot.team.sql import GROUPS, SpendRow

_SPAN = re.compile(r"([0-9]+)d")
_MOST_DAYS = 3660


class Day(click.ParamType[str]):
    """A day in UTC: `2026-11-18`, or a number of days before today (`30d`)."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if (span := _SPAN.fullmatch(text)) is not None and int(span[1]) <= _MOST_DAYS:
            return (datetime.now(UTC).date() - timedelta(days=int(span[1]))).isoformat()
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            self.fail(f"{value!r} is not a day; examples: 2026-11-18, 30d", param, ctx)


@click.command()
@click.option(
    "--by",
    type=click.Choice(list(GROUPS)),
    multiple=True,
    default=("key",),
    help="Field to group by. Repeatable. Default: key.",
)
@click.option("--key", "name", help="Show only this key, by name or id.")
@click.option(
    "--since", type=Day(), default="30d", help="First day (UTC), for example 2026-11-18 or 30d (30 days ago)."
)
@click.option("--until", type=Day(), default="0d", help="Last day (UTC). Default: today.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", help="Output format.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the cost of each day into this SVG file."
)
@click.option(
    "--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file (TOML or YAML)."
)
def spend(
    by: Sequence[str], name: str | None, since: str, until: str, form: str, plot: Path | None, file: Path | None
) -> None:
    """Show the usage and cost of the team's keys.

    Amounts lag by at most a second. An answer with an unknown cost counts as unpriced, never as free.
    """
    groups = tuple(dict.fromkeys(by))
    reports = [groups] if plot is None else [groups, ("day", groups[0] if groups[0] != "day" else "key")]
    rows, *others = _read(file, [partial(sql.report_spend, since, until, each, name) for each in reports])
    if plot is not None:
        with open_output(plot, 0o644) as output:
            output.write(draw_spend(others[0], reports[1][1]))
    if form == "json":
        click.echo(pretty_json(msgspec.json.encode([describe_spend(row, groups) for row in rows])))
    elif form == "csv":
        click.echo(_to_csv(rows, groups), nl=False)
    else:
        click.echo("\n".join(_to_table(rows, groups)))


def _read(file: Path | None, reports: Sequence[Any]) -> list[list[SpendRow]]:
    config = load_config(file, os.environ).config.team

    async def run() -> list[list[SpendRow]]:
        database = await open_database(config, os.environ)
        try:
            return [await database.run(report, writes=False) for report in reports]
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except StoreError as error:
        click.echo(f"toolglot: {visible(str(error))}", err=True)
        raise click.exceptions.Exit(UNREADABLE) from None


_COUNTS = ("requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")


def _to_csv(rows: Sequence[SpendRow], groups: Sequence[str]) -> str:
    output = io.StringIO()
    names = (*groups, *_COUNTS, "cost_usd", "unpriced", "estimated")
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        described = {**describe_spend(row, groups), "cost_usd": to_decimal(row.nano_usd)}
        writer.writerow(_inert(described[name]) for name in names)
    return output.getvalue()


def _inert(value: object) -> object:
    """Escape a name so that a spreadsheet does not treat it as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def _to_table(rows: Sequence[SpendRow], groups: Sequence[str]) -> list[str]:
    if not rows:
        return ["no usage in this period"]
    head = (*groups, "requests", "input tokens", "cached", "output tokens", "cost")
    lines = [_cells(row, groups) for row in rows]
    if len(rows) > 1:
        lines.append(_cells(_sum(rows), groups, "total"))
    width = get_terminal_size().columns
    return [visible(line) for line in render_table(head, lines, width, ruled=False)]


def _cells(row: SpendRow, groups: Sequence[str], title: str = "") -> tuple[str, ...]:
    described = describe_spend(row, groups)
    names = [str(described[group]) for group in groups]
    if title:
        names[0] = title
    counts = (f"{described[name]:,}" for name in ("requests", "input_tokens", "cached_tokens", "output_tokens"))
    cost = format_usd(row.nano_usd)
    return (*names, *counts, f"at least {cost}, {row.unpriced} unpriced" if row.unpriced else cost)


def _sum(rows: Sequence[SpendRow]) -> SpendRow:
    texts = ("day", "key", "upstream", "model")
    sums = {name: sum(getattr(row, name) for row in rows) for name in asdict(rows[0]) if name not in texts}
    return SpendRow(**sums)
