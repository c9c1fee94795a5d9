"""The report of a run: tables for the terminal, RESULTS.md, results.json and results.svg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.gateway.cases import ROUTES
from bench.gateway.pair_tables import agent_tables, pair_tables
from bench.gateway.plot import plot
from bench.gateway.results import Results, Row
from bench.gateway.route_tables import route_tables
from bench.gateway.tables import MISSING, Table, as_markdown, megabytes, number
from bench.gateway.targets import memory_per_stream, targets_table

TROUBLE = 300
"""Characters that are told of why a gateway could not be measured."""


def tables(results: Results) -> list[Table]:
    found = [targets_table(results), _gateways_table(results), *_faults_table(results)]
    found += (*pair_tables(results), *agent_tables(results))
    for route in ROUTES:
        found += route_tables(results, route.name)
    return found + _standing_tables(results)


def _gateways_table(results: Results) -> Table:
    rows = [
        (about.title, about.version or MISSING, megabytes(about.size), (about.trouble or about.settings)[:TROUBLE])
        for about in results.gateways
    ]
    return Table("Gateways", ("", "version", "installed, MB", "settings"), rows, words=True)


def _faults_table(results: Results) -> Iterator[Table]:
    rows = [(about.title, fault) for about in results.gateways for fault in about.faults]
    rows += [
        (_title(results, row.gateway), f"{row.route}, {row.manner}, {row.connections} connections: {_wrong(row)}")
        for row in results.rows
        if row.measured.errors or row.measured.bad
    ]
    if rows:
        yield Table("Faults in answers", ("", "what"), rows, words=True)


def _wrong(row: Row) -> str:
    measured = row.measured
    told = f", the first: {measured.first_error}" if measured.first_error else ""
    return f"{measured.errors} errors and {measured.bad} bad answers to {measured.requests} requests{told}"


def _title(results: Results, name: str) -> str:
    return next((about.title for about in results.gateways if about.name == name), name)


def _standing_tables(results: Results) -> list[Table]:
    if not results.standings:
        return []
    counts = sorted({held.streams for standing in results.standings for held in standing.held})
    memory = [
        (
            _title(results, standing.gateway),
            number(standing.start_seconds),
            megabytes(standing.idle_memory),
            megabytes(standing.warm_memory),
            *(_memory(results, standing.gateway, count) for count in counts),
        )
        for standing in results.standings
        if standing.idle_memory is not None
    ]
    streams = [
        (_title(results, standing.gateway), *(_held(results, standing.gateway, count) for count in counts))
        for standing in results.standings
    ]
    head = tuple(f"{count:,} slow streams" for count in counts)
    memory_note = (
        "Resident megabytes: right after the start; after answering for a while; and with streams open, in parentheses "
        "kilobytes for each of them above that."
    )
    streams_note = (
        "Chunks that came before the next one was due, of those that should have come; then how long a health check "
        "took right after all clients had left."
    )
    return [
        Table("Start and memory", ("", "ready after, s", "idle, MB", "later, MB", *head), memory, memory_note),
        Table("Many slow streams", ("", *head), streams, streams_note),
    ]


def _memory(results: Results, gateway: str, count: int) -> str:
    held = results.held(gateway, count)
    if held is None:
        return MISSING
    less = f", {held.open:,} open" if held.open < count else ""
    return f"{megabytes(held.memory)} ({number(memory_per_stream(results, gateway, count))}{less})"


def _held(results: Results, gateway: str, count: int) -> str:
    held = results.held(gateway, count)
    if held is None:
        return MISSING
    health = "no answer" if held.health_ms is None else f"{number(held.health_ms)} ms"
    return f"{held.on_time:.1%}, {health}"


HEAD = """\
# Results

Made by the benchmark on {date}; the numbers are in [results.json](results.json), and what is measured and how is in
[performance for contributors](../docs/contributing/performance.md). CPU is that of all processes of a gateway, from
/proc. Every figure is the median of the runs.

![The costs of the gateways](results.svg)

"""


def markdown(results: Results) -> str:
    facts = {**results.settings, **results.machine}
    listed = "".join(f"- {name}: {value}\n" for name, value in facts.items())
    return HEAD.format(date=results.date) + listed + "\n" + "\n".join(map(as_markdown, tables(results)))


def write_report(results: Results, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    (folder / "RESULTS.md").write_text(markdown(results))
    (folder / "results.svg").write_text(plot(results))
