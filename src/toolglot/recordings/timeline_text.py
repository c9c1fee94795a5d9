"""Render a timeline as terminal lines: three columns that share its width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from toolglot.columns import cut, fitting, width_of
from toolglot.lint.report import visible
from toolglot.receipt import ReceiptLine
from toolglot.recordings.frame_cells import Cell
from toolglot.recordings.timeline import Timeline, TimelineBanner, TimelineRequest, TimelineRow

MIN_COLUMN = 12
"""Minimum width of a column: below that the lines are longer than the terminal."""
LEAD_WIDTH = 14
"""The number of a row and its time."""
INDENT = 4
"""Indentation of continuation lines."""
BAR = " │ "
COLOURS = {"loss": "31", "note": "33", "error": "31", "attempt": "36", "served": "36", "time": "2", "head": "1"}
RECEIPT = "↳ "
LEGEND = "(1 + … adds content to block 1 of the answer; --full shows what … leaves out)"


class TextStyle(NamedTuple):
    width: int = 100
    full: bool = False
    """True to show frames completely, in as many lines as they need."""
    colour: bool = False
    frames: range | None = None
    """The rows to show, by number; all of them if None."""


def render_lines(timeline: Timeline, style: TextStyle) -> Iterator[str]:
    """Yield the lines, without line ends."""
    yield from _title(timeline.title, style)
    if style.frames is None:
        yield from _facts(timeline, style)
        for asked in timeline.requests:
            yield ""
            yield from _request(asked, style)
    yield ""
    yield from _table(timeline, style)
    if style.frames is None:
        yield ""
        for line in timeline.totals:
            yield from _wrap(visible(line), style.width)
        if any(isinstance(entry, TimelineRow) for entry in timeline.entries) and not style.full:
            yield from (_paint(part, "time", style) for part in _wrap(LEGEND, style.width))


def _title(title: str, style: TextStyle) -> Iterator[str]:
    first, *rest = _wrap(visible(title), style.width - INDENT)
    for part in (first, *(" " * INDENT + each for each in rest)):
        yield _paint(part, "head", style)


def _facts(timeline: Timeline, style: TextStyle) -> Iterator[str]:
    longest = max((len(name) for name, _ in timeline.facts), default=0)
    for name, value in timeline.facts:
        lead = f"  {name:<{longest}}  "
        for part in _wrap(visible(value), max(style.width - len(lead), MIN_COLUMN)):
            yield _paint(f"{lead}{part}", "loss" if name == "lost" else "", style)
            lead = " " * len(lead)


def _request(asked: TimelineRequest, style: TextStyle) -> Iterator[str]:
    yield from _title(asked.title, style)
    for line in (asked.about, *asked.lines):
        yield from (f"  {part}" for part in _wrap(visible(line), style.width - 2))
    yield from _receipt(asked.receipt, style, 4)
    if style.full:
        yield from (f"  {part}" for part in _full_lines(asked.body, style.width - 2))
    else:
        yield f"  {cut(f'body: {asked.body.short}', style.width - 2)}"
    for result in asked.results:
        told = _full_lines(result, style.width - 2) if style.full else (cut(result.short, style.width - 2),)
        yield from (_paint(f"  {part}".rstrip(), result.kind, style) for part in told)


def _table(timeline: Timeline, style: TextStyle) -> Iterator[str]:
    widths = _widths(style.width)
    heads = (f"upstream sent: {timeline.upstream}", "meaning", f"client got: {timeline.client}")
    titles = _join_cells([_pad(cut(head, width), width) for head, width in zip(heads, widths, strict=True)])
    yield _paint((f"{'#':>4} {'time':>7}".ljust(LEAD_WIDTH) + titles).rstrip(), "head", style)
    yield "─" * (LEAD_WIDTH + sum(widths) + 2 * len(BAR))
    shown = False
    for entry in timeline.entries:
        if isinstance(entry, TimelineRow):
            shown = style.frames is None or entry.number in style.frames
        if isinstance(entry, TimelineBanner) and (style.frames is None or shown):
            yield from _banner(entry, style)
        elif isinstance(entry, TimelineRow) and shown:
            yield from _row(entry, widths, style)


def _banner(banner: TimelineBanner, style: TextStyle) -> Iterator[str]:
    lead = f"{'':4} {_time(banner.at)}".ljust(LEAD_WIDTH)
    for part in _wrap(visible(banner.text), style.width - LEAD_WIDTH - 3):
        yield _paint(f"{lead}── {part}", banner.kind, style)
        lead = " " * LEAD_WIDTH
    yield from _receipt(banner.lines, style)


def _widths(width: int) -> tuple[int, int, int]:
    """Return the widths of the three columns. The meaning needs the least width."""
    left = max(width - LEAD_WIDTH - 2 * len(BAR), 3 * MIN_COLUMN)
    events = max(left * 3 // 11, MIN_COLUMN)
    client = (left - events) // 2
    return left - events - client, events, client


def _row(row: TimelineRow, widths: Sequence[int], style: TextStyle) -> Iterator[str]:
    cells = zip((row.upstream, row.events, row.client), widths, strict=True)
    columns = [_column(each, width, style) for each, width in cells]
    lead = f"{row.number:>4} {_time(row.at)}".ljust(LEAD_WIDTH)
    for parts in zip_longest(*columns, fillvalue=("", "")):
        shown = [_paint(_pad(text, width), kind, style) for (text, kind), width in zip(parts, widths, strict=True)]
        yield (_paint(lead, "time", style) + _join_cells(shown)).rstrip()
        lead = " " * LEAD_WIDTH
    yield from _receipt(row.lines, style)


def _column(cells: Iterable[Cell], width: int, style: TextStyle) -> list[tuple[str, str]]:
    """Return the lines of a cell, each with its kind."""
    if style.full:
        return [(part, cell.kind) for cell in cells for part in _full_lines(cell, width)]
    return [(fit_cell(cell, width), cell.kind) for cell in cells]


def fit_cell(cell: Cell, width: int) -> str:
    """Cut a cell to the width. The label is cut first, because its end (`…delta[0]`) identifies it and the content
    matters more.
    """
    short = cell.short
    if cell.label and fitting(short, width) < len(short):
        name, bracket, rest = cell.label.partition("[")
        end = max(name.rfind("_"), name.rfind(".")) + 1
        if end:
            short = f"…{name[end:]}{bracket}{rest}{short[len(cell.label) :]}"
    return cut(short, width)


def _full_lines(cell: Cell, width: int) -> Iterator[str]:
    for line in (cell.full or cell.short).split("\n"):
        yield from _wrap(visible(line), width)


def _receipt(lines: Iterable[ReceiptLine], style: TextStyle, indent: int = LEAD_WIDTH) -> Iterator[str]:
    for line in lines:
        lead = " " * indent + RECEIPT
        for part in _wrap(visible(str(line)), max(style.width - len(lead), MIN_COLUMN)):
            yield _paint(lead + part, line.severity, style)
            lead = " " * len(lead)


def _time(at: float | None) -> str:
    return f"{at:7.3f}" if at is not None else ""


def _join_cells(cells: Sequence[str]) -> str:
    return BAR.join(cells)


def _paint(text: str, kind: str, style: TextStyle) -> str:
    colour = COLOURS.get(kind) if style.colour and text.strip() else None
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def _wrap(text: str, width: int) -> Iterator[str]:
    """Split the text into pieces that fit, after a space if there is one."""
    start = 0
    while (end := fitting(text, width, start)) < len(text):
        space = text.rfind(" ", start + (end - start) // 2, end)
        end = space + 1 if space > start else end
        yield text[start:end].rstrip()
        start = end
    yield text[start:]


def _pad(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))
