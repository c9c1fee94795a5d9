"""The plot: bars on a logarithmic scale, written as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

from bench.gateway.cases import ANTHROPIC_TO_CHAT, CHAT_TO_CHAT, Case
from bench.gateway.results import Results
from bench.gateway.tables import number
from bench.gateway.targets import LIMIT, OURS, Figure, cpu_of_chunks, cpu_of_request

WIDTH, LABELS, VALUES = 760, 170, 90
"""Of the whole, of the names before the bars and of the numbers behind them."""
BAR, STEP, TITLE, GAP = 16, 22, 26, 14
COLOURS = {OURS: "#c2410c", LIMIT: "#64748b"}
OTHER = "#93a4bd"


class Panel(NamedTuple):
    """A figure of every gateway that has it."""

    title: str
    bars: list[tuple[str, str, float]]
    """Names, titles and values."""


def panels(results: Results) -> list[Panel]:
    at_once, apart = "CPU s for 100,000 chunks sent at once", "CPU s for 100,000 chunks, 10 ms apart, 64 streams"
    cases: tuple[tuple[str, Case, Figure], ...] = (
        ("CPU ms a request, 64 connections", Case(ANTHROPIC_TO_CHAT, "plain", "small", 64), cpu_of_request),
        (at_once, Case(ANTHROPIC_TO_CHAT, "burst", "small", 8), cpu_of_chunks),
        (apart, Case(ANTHROPIC_TO_CHAT, "paced", "small", 64), cpu_of_chunks),
        ("CPU ms a request, 64 connections", Case(CHAT_TO_CHAT, "plain", "small", 64), cpu_of_request),
        (at_once, Case(CHAT_TO_CHAT, "burst", "small", 8), cpu_of_chunks),
    )
    routes = {ANTHROPIC_TO_CHAT: "Anthropic to Chat", CHAT_TO_CHAT: "Chat to Chat"}
    found = [
        Panel(f"{routes[case.route]}: {title}", _bars(results, _of_case(results, case, figure)))
        for title, case, figure in cases
    ]
    found.append(Panel("MB with 1,000 slow streams", _bars(results, _memory(results))))
    return [panel for panel in found if panel.bars]


def _bars(results: Results, value: Callable[[str], float | None]) -> list[tuple[str, str, float]]:
    found = [(about.name, about.title, value(about.name)) for about in results.gateways]
    return sorted(((name, title, size) for name, title, size in found if size), key=lambda bar: bar[2])


def _of_case(results: Results, case: Case, figure: Figure) -> Callable[[str], float | None]:
    def value(name: str) -> float | None:
        found = results.measured(name, case)
        return figure(found) if found else None

    return value


def _memory(results: Results) -> Callable[[str], float | None]:
    def value(name: str) -> float | None:
        held = results.held(name, 1000)
        return held.memory / 1e6 if held else None

    return value


def plot(results: Results) -> str:
    parts = [f'<text class="value" x="{GAP}" y="{GAP + 14}">Less is better. The scales are logarithmic.</text>']
    top = GAP + TITLE
    for panel in panels(results):
        parts += _drawn(panel, top)
        top += TITLE + STEP * len(panel.bars) + GAP
    style = "text{font:13px system-ui,sans-serif;fill:#1e293b}.title{font-weight:600}.value{fill:#475569}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">',
            f"<title>What gateways cost, on logarithmic scales; less is better ({escape(results.date)})</title>",
            f"<style>{style}</style>",
            f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _drawn(panel: Panel, top: int) -> Iterator[str]:
    low, high = _scale([value for _, _, value in panel.bars])
    room = WIDTH - LABELS - VALUES
    yield f'<text class="title" x="{GAP}" y="{top + 14}">{escape(panel.title)}</text>'
    for row, (name, title, value) in enumerate(panel.bars):
        y = top + TITLE + row * STEP
        length = room * (math.log10(value) - low) / (high - low)
        yield f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(title)}</text>'
        colour = COLOURS.get(name, OTHER)
        yield f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        yield f'<text class="value" x="{LABELS + length + 6:.1f}" y="{y + 13}">{number(value)}</text>'


def _scale(values: list[float]) -> tuple[float, float]:
    """Powers of ten: from below the smallest, so that it has a bar too, to the largest."""
    low = math.floor(math.log10(min(values)) - 0.3)
    return low, max(math.log10(max(values)), low + 1)
