"""The tables of one route: what each gateway costs, how much it does and what time it adds, case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bench.gateway.cases import Manner
from bench.gateway.measured import Measured
from bench.gateway.requests import Size
from bench.gateway.results import Results, Row, ratio
from bench.gateway.tables import MISSING, Table, number, times
from bench.gateway.targets import DIRECT, LIMIT, OURS, SLOWEST

Kind = tuple[Manner, Size]
PLAIN: Kind = ("plain", "small")
LARGE: Kind = ("plain", "large")
BURST: Kind = ("burst", "small")
PACED: Kind = ("paced", "small")
BRIEF: Kind = ("brief", "small")
LABELS = {PLAIN: "plain", LARGE: "55 KB", BURST: "at once", PACED: "10 ms", BRIEF: "first byte"}
KINDS = tuple(LABELS)

Column = tuple[Kind, int]
"""A kind of case, and how many connections there are."""


class Sheet(NamedTuple):
    """What was measured on a route, by gateway and column."""

    cells: dict[tuple[str, Column], Measured]

    def figure(self, gateway: str, column: Column, name: str) -> float | None:
        found = self.cells.get((gateway, column))
        value: float | None = getattr(found, name) if found else None
        return value


Cell = Callable[[Sheet, str, Column, tuple[str, ...]], str]


def _bare(sheet: Sheet, gateway: str, column: Column, names: tuple[str, ...]) -> str:
    return number(sheet.figure(gateway, column, names[0]))


def _beside_nginx(sheet: Sheet, gateway: str, column: Column, names: tuple[str, ...]) -> str:
    own, limit = (sheet.figure(name, column, names[0]) for name in (gateway, LIMIT))
    over = ratio(own, limit) if gateway != LIMIT else None
    return number(own) + (f" ({times(over)})" if over is not None else "")


def _above_direct(sheet: Sheet, gateway: str, column: Column, names: tuple[str, ...]) -> str:
    pairs = [(sheet.figure(gateway, column, name), sheet.figure(DIRECT, column, name)) for name in names]
    return " / ".join(MISSING if own is None or base is None else number(own - base) for own, base in pairs)


class Form(NamedTuple):
    """A table that every route has."""

    title: str
    figures: Mapping[Kind, tuple[str, ...]]
    """The figures of `Measured` that are told, by kind of case."""
    cell: Cell
    note: str = ""
    with_direct: bool = False


_REQUEST = ("cpu_ms_per_request",)
_CHUNKS = ("cpu_seconds_per_100k_chunks",)
_RATIO = "In parentheses: how many times as much as nginx."

FORMS = (
    Form("CPU milliseconds a request", {PLAIN: _REQUEST, LARGE: _REQUEST}, _beside_nginx, _RATIO),
    Form("CPU seconds for 100,000 chunks", {BURST: _CHUNKS, PACED: _CHUNKS}, _beside_nginx, _RATIO),
    Form(
        "requests a second, and chunks a second of streams",
        {
            PLAIN: ("requests_per_second",),
            LARGE: ("requests_per_second",),
            BURST: ("chunks_per_second",),
            PACED: ("chunks_per_second",),
        },
        _bare,
        with_direct=True,
    ),
    Form(
        "milliseconds added to direct",
        {
            PLAIN: ("whole_p50", "whole_p99"),
            BRIEF: ("first_byte_p50", "first_byte_p99"),
            PACED: ("transit_p50", "transit_p99"),
        },
        _above_direct,
        "Median / 99th percentile: of a plain answer, of a chunk's way from the upstream to the client, and of the "
        "first byte of streams whose chunks are 10 ms apart.",
    ),
)


def route_tables(results: Results, route: str) -> Iterator[Table]:
    rows = [row for row in results.rows if row.route == route and (row.manner, row.size) in LABELS]
    sheet = Sheet({(row.gateway, _column(row)): row.measured for row in rows})
    titles = {about.name: about.title for about in results.gateways}
    for form in FORMS:
        columns = [column for column in _columns(sheet) if column[0] in form.figures]
        names = [name for name in titles if any((name, column) in sheet.cells for column in columns)]
        names = [name for name in names if form.with_direct or name != DIRECT]
        if not columns or not names or (form.cell is _above_direct and DIRECT not in {name for name, _ in sheet.cells}):
            continue
        lines = [(titles[name], *_line(sheet, form, name, columns)) for name in names]
        if form.cell is _beside_nginx and {OURS, SLOWEST} <= set(names):
            lines.append((f"{titles[SLOWEST]} / {titles[OURS]}", *_compared(sheet, form, columns)))
        head = tuple(f"{LABELS[kind]}, {count}" for kind, count in columns)
        yield Table(f"{_arrow(route)}: {form.title}", ("connections", *head), lines, form.note)


def _column(row: Row) -> Column:
    return next(kind for kind in KINDS if kind == (row.manner, row.size)), row.connections


def _columns(sheet: Sheet) -> list[Column]:
    return sorted({column for _, column in sheet.cells}, key=lambda column: (KINDS.index(column[0]), column[1]))


def _line(sheet: Sheet, form: Form, name: str, columns: list[Column]) -> Iterator[str]:
    for column in columns:
        yield form.cell(sheet, name, column, form.figures[column[0]])


def _compared(sheet: Sheet, form: Form, columns: list[Column]) -> Iterator[str]:
    for column in columns:
        slowest, ours = (sheet.figure(name, column, form.figures[column[0]][0]) for name in (SLOWEST, OURS))
        yield times(ratio(slowest, ours))


def _arrow(route: str) -> str:
    client, _, upstream = route.partition("->")
    return f"{client.capitalize()} -> {upstream.capitalize()}"
