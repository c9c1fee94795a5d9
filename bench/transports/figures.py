"""What is measured of each transport, and the table of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bench.gateway.cases import ANTHROPIC_TO_CHAT, Case
from bench.gateway.measured import Measured
from bench.gateway.results import About, Results
from bench.gateway.standing import Plan
from bench.gateway.tables import MISSING, Table, number
from bench.gateway.targets import cpu_of_chunks, cpu_of_request, memory_per_stream
from bench.transports.candidates import basis

STREAMS = Plan(streams=1000, pace=2000, ramp=3.0, seconds=3.0)
"""So slow that their memory and nothing else counts."""

PLAIN_8 = Case(ANTHROPIC_TO_CHAT, "plain", "small", 8)
PLAIN_64 = Case(ANTHROPIC_TO_CHAT, "plain", "small", 64)
LARGE_8 = Case(ANTHROPIC_TO_CHAT, "plain", "large", 8)
BURST_8 = Case(ANTHROPIC_TO_CHAT, "burst", "small", 8)
PACED_64 = Case(ANTHROPIC_TO_CHAT, "paced", "small", 64)
CASES = (PLAIN_8, PLAIN_64, LARGE_8, BURST_8, PACED_64)


def _transit(found: Measured) -> float | None:
    return found.transit_p50


class Figure(NamedTuple):
    title: str
    value: Callable[[Results, str], float | None]
    """By the name of a candidate."""


def _of(case: Case, figure: Callable[[Measured], float | None]) -> Callable[[Results, str], float | None]:
    def value(results: Results, name: str) -> float | None:
        found = results.measured(name, case)
        return figure(found) if found else None

    return value


def _idle_memory(results: Results, name: str) -> float | None:
    standing = results.standing(name)
    return standing.idle_memory / 1e6 if standing and standing.idle_memory else None


def _stream_memory(results: Results, name: str) -> float | None:
    counts = [held.streams for standing in results.standings for held in standing.held]
    return memory_per_stream(results, name, max(counts)) if counts else None


FIGURES = (
    Figure("CPU of a plain request, 8 connections: ms", _of(PLAIN_8, cpu_of_request)),
    Figure("the same, 64 connections: ms", _of(PLAIN_64, cpu_of_request)),
    Figure("CPU of a request of 55 KB, 8 connections: ms", _of(LARGE_8, cpu_of_request)),
    Figure("CPU of 100,000 chunks at once, 8 connections: s", _of(BURST_8, cpu_of_chunks)),
    Figure("CPU of 100,000 chunks 10 ms apart, 64 streams: s", _of(PACED_64, cpu_of_chunks)),
    Figure("such a chunk's way from the upstream to the client: ms", _of(PACED_64, _transit)),
    Figure("memory, idle: MB", _idle_memory),
    Figure("memory of a slow stream, of 1,000: KB", _stream_memory),
)


def table(results: Results) -> Table:
    rows = [
        (figure.title, *(number(figure.value(results, about.name)) for about in results.gateways)) for figure in FIGURES
    ]
    head = ("", *(about.title for about in results.gateways))
    return Table("Transports", head, [*rows, ("it stands on", *map(_basis, results.gateways))])


def _basis(about: About) -> str:
    return f"{basis(about.name)} {about.version or MISSING}"
