"""`toolglot prices`: list the prices of models, with the source of each price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from time import time
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from toolglot.cli.parameters import UNREADABLE, exit_bad_config
from toolglot.config.load import load_config
from toolglot.config.problems import ConfigError
from toolglot.config.schema import PriceConfig
from toolglot.lint.report import visible
from toolglot.nearest import nearest
from toolglot.prices import Price, PriceTable, Rates, load_prices, override_price, to_decimal

_RATES = ("input", "output", "cache_read", "cache_write", "cache_write_long")
_HEAD = ("model", "input", "output", "read", "write", "long write")


@click.command(short_help="List the prices of models.")
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file whose `prices` apply.")
def prices(model: str | None, as_json: bool, file: Path | None) -> None:
    """List the prices of models in USD per million tokens. With MODEL, list its prices for all sizes and service tiers.

    The table is part of toolglot and is never fetched. Each price has its source and the date of the source.
    """
    try:
        table, configured = load_prices(), load_config(file, environ).config.prices
    except ConfigError as error:
        exit_bad_config(error.problems)
    found = _configured(table, configured, model) + _from_table(table, model)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode([_describe(price) for price in found]), indent=2))
    elif model is None:
        _show_all(found)
    else:
        for price in found:
            _show(price)
    if not found and model is not None:
        known = {name: None for vendor, each in table.models() for name in (each, f"{vendor}/{each}")} | configured
        near = nearest(model, known)
        hint = f"; the nearest is {visible(near)}" if near else ""
        click.echo(f"toolglot: the price of {visible(model)} is unknown{hint}", err=True)
        raise click.exceptions.Exit(UNREADABLE)


def _from_table(table: PriceTable, model: str | None) -> list[Price]:
    """Return the current prices of this model at every vendor that has it, or of all models."""
    now = time()
    if model is None:
        every = [table.find(name, vendor=vendor, at=now) for vendor, name in table.models()]
        return [price for price in every if price is not None]
    return table.find_all(model, at=now)


def _configured(table: PriceTable, configured: dict[str, PriceConfig], model: str | None) -> list[Price]:
    """Return the configured prices, of this model or of all."""
    found: list[Price] = []
    for name, entry in configured.items():
        if model not in (None, name, name.partition("/")[2]):
            continue
        known = table.find_all(name, at=time()) or table.find_all(name.partition("/")[2], at=time())
        price = override_price(known[0] if known else None, entry.to_override(), name)
        if price is not None:
            found.append(replace(price, vendor=None, model=name))
    return found


def _name(price: Price) -> str:
    return price.model if price.vendor is None else f"{price.vendor}/{price.model}"


def _amounts(rates: Rates) -> tuple[str, ...]:
    found = (getattr(rates, name) for name in _RATES)
    return tuple("-" if rate is None else to_decimal(rate) for rate in found)


def _show_all(found: Sequence[Price]) -> None:
    rows = [(visible(_name(price)), *_amounts(price.base)) for price in found]
    click.echo("\n".join(["USD per million tokens", "", *_columns((_HEAD, *rows))]))
    click.echo("\n`toolglot prices MODEL` shows larger requests, service tiers and the source.")


def _show(price: Price) -> None:
    rows = [(_condition(rates), *_amounts(rates)) for rates in price.rates]
    lines = [
        visible(_name(price)),
        *[f"  {line}" for line in _columns((("USD per million tokens", *_HEAD[1:]), *rows))],
    ]
    lines.append(f"  source: {visible(price.source)}" + (f", read {price.date}" if price.date else ""))
    if price.until is not None:
        lines.append(f"  until {_moment(price.until)}")
    click.echo("\n".join(lines))


def _condition(rates: Rates) -> str:
    size = f"above {rates.above:,} input tokens" if rates.above else ""
    return ", ".join(filter(None, (rates.service_tier, size))) or "standard"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Align text on the left and amounts on the right."""
    rows = list(rows)
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))])
        for row in rows
    ]


def _describe(price: Price) -> dict[str, Any]:
    return {
        "vendor": price.vendor,
        "model": price.model,
        "unit": "USD per million tokens",
        "rates": [_describe_rates(rates) for rates in price.rates],
        "until": None if price.until is None else _moment(price.until),
        "source": price.source,
        "date": price.date or None,
    }


def _describe_rates(rates: Rates) -> dict[str, Any]:
    amounts = {name: None if (rate := getattr(rates, name)) is None else float(to_decimal(rate)) for name in _RATES}
    return {"above": rates.above, "service_tier": rates.service_tier, **amounts}
