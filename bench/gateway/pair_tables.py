"""The tables of all pairs of dialects and of real agents' requests: what each gateway costs, beside the base, which is
another version of this gateway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.gateway.cases import ANTHROPIC_TO_CHAT, PAIRS, Case, Key, Manner
from bench.gateway.results import About, Results, Row, ratio
from bench.gateway.tables import MISSING, Table, number, times
from bench.gateway.targets import BASE, DIRECT, Figure, cpu_of_chunks, cpu_of_request


class Form(NamedTuple):
    title: str
    manner: Manner
    connections: int
    figure: Figure


FORMS = (
    Form("CPU milliseconds of a plain request, 64 connections", "plain", 64, cpu_of_request),
    Form("CPU seconds for 100,000 chunks at once, 8 connections", "burst", 8, cpu_of_chunks),
    Form("CPU seconds for 100,000 chunks 10 ms apart, 64 streams", "paced", 64, cpu_of_chunks),
    Form("CPU seconds for 100,000 chunks 10 ms apart, 256 streams", "paced", 256, cpu_of_chunks),
)
PAIRS_NOTE = "In parentheses: how many times as much as the base takes from Anthropic to Chat."
AGENTS_NOTE = "In parentheses: how many times as much as the base takes for the same."
LIBRARY_NOTE = "Library: microseconds of CPU to translate the request, without the gateway."


class Line(NamedTuple):
    """A row of a table: its first cells, the case, and the case of the base that it is compared with."""

    names: tuple[str, ...]
    key: Key
    base: Key


def pair_tables(results: Results) -> Iterator[Table]:
    for form in FORMS:
        base = Case(ANTHROPIC_TO_CHAT, form.manner, "small", form.connections).key
        cases = [Case(route, form.manner, "small", form.connections) for route in PAIRS]
        lines = [Line((_arrow(case.route.name),), case.key, base) for case in cases]
        yield from _tables(results, f"All pairs: {form.title}", ("",), lines, form.figure, PAIRS_NOTE)


def agent_tables(results: Results) -> Iterator[Table]:
    rows = {row.key: row for row in results.rows if row.manner == "agent"}
    lines = [Line((row.size, _kilobytes(row), _arrow(row.route)), key, key) for key, row in rows.items()]
    head = ("", "KB", "pair")
    yield from _tables(results, "Agents' requests: CPU milliseconds", head, lines, cpu_of_request, AGENTS_NOTE)


def _tables(
    results: Results, title: str, head: tuple[str, ...], lines: Sequence[Line], figure: Figure, note: str
) -> Iterator[Table]:
    """One table; none if nothing was measured."""
    rows = {(row.gateway, row.key): row for row in results.rows}
    costs = {place: figure(row.measured) for place, row in rows.items()}
    gateways = [about for about in results.gateways if about.name != DIRECT]
    shown = [about for about in gateways if any((about.name, line.key) in rows for line in lines)]
    libraries = [about for about in shown if any(_library(rows, about, line) is not None for line in lines)]
    cells = [
        (
            *line.names,
            *(_cell(costs.get((about.name, line.key)), costs.get((BASE, line.base))) for about in shown),
            *(number(_library(rows, about, line)) for about in libraries),
        )
        for line in lines
        if any((about.name, line.key) in rows for about in shown)
    ]
    notes = [note] * any(about.name == BASE for about in shown) + [LIBRARY_NOTE] * bool(libraries)
    if cells:
        head += (*(about.title for about in shown), *(f"{about.title}, library" for about in libraries))
        yield Table(title, head, cells, " ".join(notes))


def _library(rows: dict[tuple[str, Key], Row], about: About, line: Line) -> float | None:
    row = rows.get((about.name, line.key))
    return row.library_us if row else None


def _cell(value: float | None, base: float | None) -> str:
    over = ratio(value, base)
    return number(value) + (f" ({times(over)})" if over is not None else "")


def _kilobytes(row: Row) -> str:
    return MISSING if row.request_bytes is None else number(row.request_bytes / 1e3)


def _arrow(route: str) -> str:
    return route.replace("->", " -> ")
