"""The tables of all pairs of dialects: what each gateway costs on each, beside the base, which is another version of
this gateway from Anthropic to Chat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.gateway.cases import ANTHROPIC_TO_CHAT, PAIRS, Case, Manner, Route
from bench.gateway.results import Results, ratio
from bench.gateway.tables import Table, number, times
from bench.gateway.targets import BASE, DIRECT, Figure, cpu_of_chunks, cpu_of_request


class Form(NamedTuple):
    title: str
    manner: Manner
    connections: int
    figure: Figure

    def value(self, results: Results, gateway: str, route: Route) -> float | None:
        found = results.measured(gateway, Case(route, self.manner, "small", self.connections))
        return self.figure(found) if found else None


FORMS = (
    Form("CPU milliseconds of a plain request, 64 connections", "plain", 64, cpu_of_request),
    Form("CPU seconds for 100,000 chunks at once, 8 connections", "burst", 8, cpu_of_chunks),
    Form("CPU seconds for 100,000 chunks 10 ms apart, 64 streams", "paced", 64, cpu_of_chunks),
    Form("CPU seconds for 100,000 chunks 10 ms apart, 256 streams", "paced", 256, cpu_of_chunks),
)
NOTE = "In parentheses: how many times as much as the base takes from Anthropic to Chat."


def pair_tables(results: Results) -> Iterator[Table]:
    for form in FORMS:
        base = form.value(results, BASE, ANTHROPIC_TO_CHAT)
        values = {
            (about.name, route): form.value(results, about.name, route)
            for about in results.gateways
            for route in PAIRS
            if about.name != DIRECT
        }
        columns = [
            about for about in results.gateways if any(values.get((about.name, route)) is not None for route in PAIRS)
        ]
        rows = [
            (_title(route), *(_cell(values[about.name, route], base) for about in columns))
            for route in PAIRS
            if any(values[about.name, route] is not None for about in columns)
        ]
        if rows:
            head = ("", *(about.title for about in columns))
            yield Table(f"All pairs: {form.title}", head, rows, NOTE if base else "")


def _title(route: Route) -> str:
    return route.name.replace("->", " -> ")


def _cell(value: float | None, base: float | None) -> str:
    over = ratio(value, base)
    return number(value) + (f" ({times(over)})" if over is not None else "")
