"""The table of prices that comes with the package (`prices.tsv`): read on first use, never fetched.

A row has the rates of a model under its conditions; an empty condition is no condition:

- `from`, `to`: days in UTC; the price applies from the first until before the second.
- `above`: the input has more tokens than this. The rates then apply to the whole request.
- `hours`: hours in UTC (`Mon-Fri 01-04 06-10`). A row with hours wins over one without.
- `service_tier`: the tier that served the request, by OpenAI's names.

An empty rate was not found in the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from toolglot.prices.amounts import to_nano
from toolglot.prices.price import Price, Rates

_DAY, _HOUR = 86400, 3600
_WEEK = 7 * 24
"""Number of hours in a week."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EPOCH_DAY = 3
"""1970-01-01 was a Thursday."""
_UNIT = "USD/Mtok"
_DATED = re.compile(
    r"(?:-20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|-20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])|@[\w.-]++)$"
)
"""The date or version at the end of a model name."""

_TABLE_VENDORS = {"gemini": "google"}
"""Vendors whose name in the table differs from that in `toolglot.upstream.vendors`."""
_AGGREGATORS = frozenset({"openrouter", "vercel"})
"""Vendors that serve other vendors' models, as `author/model`, at the authors' prices."""
_AUTHORS = {"anthropic": "anthropic", "google": "google", "openai": "openai", "x-ai": "xai", "xai": "xai"}
"""Authors in these names, and their vendors in the table. Includes only authors whose models have one price everywhere.
"""


Cells: TypeAlias = Mapping[str, str]


class PriceRow(Struct, frozen=True, kw_only=True):
    """One row of the table: rates, and the conditions under which they apply."""

    vendor: str
    model: str
    rates: Rates
    starts: float | None = None
    ends: float | None = None
    hours: frozenset[int] = frozenset()
    """Hours of the week in UTC, counted from Monday 0:00; empty for all hours."""
    source: str = ""
    date: str = ""

    def is_valid(self, at: float) -> bool:
        return (self.starts is None or self.starts <= at) and (self.ends is None or at < self.ends)


class PriceTable:
    """Prices by vendor and model. Rows are parsed only when a lookup finds them, because most are never needed."""

    def __init__(self, rows: Iterable[Cells]) -> None:
        self._rows: dict[str, dict[str, list[Cells]]] = {}
        for row in rows:
            self._rows.setdefault(row["vendor"], {}).setdefault(row["model"], []).append(row)

    @classmethod
    def parse(cls, text: str) -> PriceTable:
        """Parse a table of tab-separated cells. The first line names the columns."""
        head, *lines = text.splitlines()
        names = head.split("\t")
        return cls(dict(zip(names, line.split("\t"), strict=True)) for line in lines if line)

    def find(self, model: str, *, vendor: str | None, at: float) -> Price | None:
        """Find the price of a vendor's model at a time.

        `vendor` is a key of `toolglot.upstream.vendors`, and `at` is in Unix seconds.

        The name must match the table, with or without a date at its end. For an aggregator, the author comes first.
        Without a vendor, only one vendor may have a model with this name. Returns None if the price is unknown.
        """
        found = self._find_rows(model, vendor)
        return None if found is None else _price([parse_row(row) for row in found], at)

    def find_all(self, model: str, *, at: float) -> list[Price]:
        """Find the prices of a model at every vendor that offers it.

        The model is a name, or `vendor/model` with the vendor's name in the table.
        """
        vendor, _, name = model.partition("/")
        found = [
            _named(models, model) or (_named(models, name) if key == vendor else None)
            for key, models in self._rows.items()
        ]
        priced = [_price([parse_row(row) for row in rows], at) for rows in found if rows is not None]
        return [price for price in priced if price is not None]

    def rows(self) -> Iterator[PriceRow]:
        """Yield all rows."""
        for models in self._rows.values():
            for rows in models.values():
                yield from map(parse_row, rows)

    def models(self) -> Iterator[tuple[str, str]]:
        """Yield the vendor and name of every model."""
        for vendor, models in self._rows.items():
            for model in models:
                yield vendor, model

    def _find_rows(self, model: str, vendor: str | None) -> Sequence[Cells] | None:
        if vendor in _AGGREGATORS:
            return self._find_authored(model)
        if vendor is not None:
            return _named(self._rows.get(_TABLE_VENDORS.get(vendor, vendor), {}), model.removeprefix("models/"))
        found = [rows for models in self._rows.values() if (rows := _named(models, model)) is not None]
        return found[0] if len(found) == 1 else self._find_authored(model) if not found else None

    def _find_authored(self, model: str) -> Sequence[Cells] | None:
        """Find `author/model`. Aggregators write versions with dots (`claude-opus-4.8`)."""
        author, _, name = model.partition("/")
        models = self._rows.get(_AUTHORS.get(author, ""), {})
        return _named(models, name) or _named(models, name.replace(".", "-"))


def _named(models: Mapping[str, Sequence[Cells]], name: str) -> Sequence[Cells] | None:
    """Find the rows of a name: the exact name, or the name without the date at its end. Other partial names never
    match."""
    return models.get(name) or models.get(_DATED.sub("", name))


def _price(rows: Sequence[PriceRow], at: float) -> Price | None:
    valid = [row for row in rows if row.is_valid(at)]
    current: dict[tuple[int, str | None], PriceRow] = {}
    hour = _hour_of_week(at)
    for row in sorted(valid, key=lambda row: len(row.hours)):
        if not row.hours or hour in row.hours:
            current[row.rates.above, row.rates.service_tier] = row
    base = current.get((0, None))
    if base is None:
        return None
    days = [row for row in rows if row.is_valid(at) or (row.starts is not None and at < row.starts <= at + _DAY)]
    changes = [moment for row in rows for moment in (row.starts, row.ends) if moment is not None and moment > at]
    if any(row.hours for row in valid):
        changes.append(_next_change(valid, at))
    others = [row.rates for key, row in sorted(current.items(), key=_place) if row is not base]
    return Price(
        vendor=base.vendor,
        model=base.model,
        rates=(base.rates, *others),
        ceilings=tuple([row.rates for row in days]),
        until=min(changes, default=None),
        source=base.source,
        date=base.date,
    )


def _place(item: tuple[tuple[int, str | None], PriceRow]) -> tuple[int, str]:
    (above, service_tier), _ = item
    return above, service_tier or ""


def _next_change(rows: Sequence[PriceRow], at: float) -> float:
    """Return the next full hour at which other rows apply."""
    now, start = _hour_of_week(at), (at // _HOUR + 1) * _HOUR
    for hours in range(_WEEK):
        later = (now + 1 + hours) % _WEEK
        if any((now in row.hours) != (later in row.hours) for row in rows):
            return start + hours * _HOUR
    return start


def _hour_of_week(at: float) -> int:
    days, seconds = divmod(int(at), _DAY)
    return (days + _EPOCH_DAY) % 7 * 24 + seconds // _HOUR


def parse_row(cells: Cells) -> PriceRow:
    """Parse a row from its cells, which are keyed by column name."""
    if cells["unit"] != _UNIT:
        raise ValueError(f"unknown unit: {cells['unit']!r}")
    optional = {name: _rate(cells[name]) for name in ("cache_read", "cache_write", "cache_write_long")}
    return PriceRow(
        vendor=cells["vendor"],
        model=cells["model"],
        rates=Rates(
            input=to_nano(cells["input"]),
            output=to_nano(cells["output"]),
            above=int(cells["above"] or 0),
            service_tier=cells["service_tier"] or None,
            **optional,
        ),
        starts=_midnight(cells["from"]),
        ends=_midnight(cells["to"]),
        hours=_hours(cells["hours"]),
        source=cells["source"],
        date=cells["date"],
    )


def _rate(text: str) -> int | None:
    return to_nano(text) if text else None


def _midnight(day: str) -> float | None:
    return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() if day else None


def _hours(text: str) -> frozenset[int]:
    """Parse `Mon-Fri 01-04 06-10`."""
    if not text:
        return frozenset()
    days, *spans = text.split()
    first, last = map(_DAYS.index, days.split("-"))
    ranges = [tuple(map(int, span.split("-"))) for span in spans]
    return frozenset(24 * day + hour for day in range(first, last + 1) for span in ranges for hour in range(*span))


@cache
def load_prices() -> PriceTable:
    """Load the table that is part of the package."""
    return PriceTable.parse(Path(__file__).with_name("prices.tsv").read_text("utf-8"))
