"""Bar chart of the cost per day: a self-contained SVG for light and dark pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from html import escape

from toolglot.prices import format_usd
from toolglot.team.sql import SpendRow

WIDTH, HEIGHT = 920, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 56, 44
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#9c755f")
"""One color for each of the most expensive names; the rest share `_OTHER`."""
_OTHER = "#9d9d9d"
_REST = "others"
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.grid{stroke:#ddd}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
)


def draw_spend(rows: Sequence[SpendRow], by: str) -> bytes:
    """Draw rows that are grouped by day and `by`."""
    costs: dict[str, dict[str, int]] = defaultdict(dict)
    totals: dict[str, int] = defaultdict(int)
    for row in rows:
        name = getattr(row, by) or "?"
        costs[row.day][name] = costs[row.day].get(name, 0) + row.nano_usd
        totals[name] += row.nano_usd
    names = sorted(totals, key=lambda name: (-totals[name], name))[: len(_COLOURS)]
    days = _all_days(costs)
    most = max((sum(costs[day].values()) for day in days if day in costs), default=0)
    scale = _round_up(most)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Cost of each day by {escape(by)}"><style>{_STYLE}</style>',
        *_draw_grid(scale),
        *_draw_legend(names, has_others=len(totals) > len(names)),
        *_draw_days(days, costs, names, scale),
        "</svg>\n",
    ]
    return "\n".join(parts).encode()


def _all_days(costs: dict[str, dict[str, int]]) -> list[str]:
    """Return every day from the first to the last, including days without cost."""
    if not costs:
        return []
    first, last = (date.fromisoformat(each) for each in (min(costs), max(costs)))
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _round_up(amount: int) -> int:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= amount:
                return factor * power
        power *= 10


def _draw_grid(scale: int) -> Iterator[str]:
    for step in range(5):
        y = _TOP + (HEIGHT - _TOP - _BOTTOM) * (4 - step) / 4
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{format_usd(scale * step // 4)}</text>'


def _draw_legend(names: Sequence[str], *, has_others: bool) -> Iterator[str]:
    shown = [*zip(names, _COLOURS, strict=False), *([(_REST, _OTHER)] if has_others else [])]
    room = (WIDTH - _LEFT - _RIGHT) / max(len(shown), 1)
    for number, (name, colour) in enumerate(shown):
        x, most = _LEFT + room * number, max(int(room / 8) - 3, 4)
        text = name if len(name) <= most else f"{name[: most - 1]}…"
        yield f'<rect x="{x:.1f}" y="20" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 15:.1f}" y="29">{escape(text)}<title>{escape(name)}</title></text>'


def _draw_days(
    days: Sequence[str], costs: dict[str, dict[str, int]], names: Sequence[str], scale: int
) -> Iterator[str]:
    if not days:
        yield f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">no usage in this period</text>'
        return
    room = (WIDTH - _LEFT - _RIGHT) / len(days)
    every = -(-len(days) // 12)
    for number, day in enumerate(days):
        x, top = _LEFT + room * number, float(HEIGHT - _BOTTOM)
        of_day = costs.get(day, {})
        rest = sum(amount for name, amount in of_day.items() if name not in names)
        for name, colour in (*zip(names, _COLOURS, strict=False), (_REST, _OTHER)):
            amount = rest if name == _REST and name not in names else of_day.get(name, 0)
            height = (HEIGHT - _TOP - _BOTTOM) * amount / scale
            if amount:
                top -= height
                yield (
                    f'<rect x="{x + room * 0.1:.1f}" y="{top:.2f}" width="{room * 0.8:.1f}" height="{height:.2f}" '
                    f'fill="{colour}"><title>{day}, {escape(name)}: {format_usd(amount)}</title></rect>'
                )
        if number % every == 0:
            yield f'<text x="{x + room / 2:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{day[5:]}</text>'
