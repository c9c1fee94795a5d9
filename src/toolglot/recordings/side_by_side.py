"""A timeline as lines for a terminal: three columns that share its width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from toolglot.columns import cut, fitting, width_of
from toolglot.lint.report import visible
from toolglot.receipt import Loss
from toolglot.recordings.frames import Cell
from toolglot.recordings.timeline import Asked, Banner, Row, Timeline

NARROWEST = 12
"""Of a column: below that the lines are longer than the terminal."""
LEAD = 14
"""The number of a row and its time."""
INDENT = 4
"""Of what goes on in the next line."""
BAR = " │ "
COLOURS = {"loss": "31", "note": "33", "error": "31", "attempt": "36", "served": "36", "time": "2", "head": "1"}
RECEIPT = "↳ "


class Style(NamedTuple):
    width: int = 100
    full: bool = False
    """Frames are told whole, in as many lines as they need."""
    colour: bool = False
    frames: range | None = None
    """The rows to tell, by number; all of them if None."""


def lines_of(timeline: Timeline, style: Style) -> Iterator[str]:
    """The lines, without their ends."""
    yield from _title(timeline.title, style)
    if style.frames is None:
        for asked in timeline.requests:
            yield ""
            yield from _request(asked, style)
    yield ""
    yield from _table(timeline, style)
    if style.frames is None:
        yield ""
        for line in timeline.totals:
            yield from _wrapped(visible(line), style.width)


def _title(title: str, style: Style) -> Iterator[str]:
    first, *rest = _wrapped(visible(title), style.width - INDENT)
    for part in (first, *(" " * INDENT + each for each in rest)):
        yield _painted(part, "head", style)


def _request(asked: Asked, style: Style) -> Iterator[str]:
    yield from _title(asked.title, style)
    for line in (asked.about, *asked.lines):
        yield from (f"  {part}" for part in _wrapped(visible(line), style.width - 2))
    yield from _receipt(asked.receipt, style, 4)
    if style.full:
        yield from (f"  {part}" for part in _whole(asked.body, style.width - 2))
    else:
        yield f"  {cut(asked.body.short, style.width - 2)}"
    for result in asked.results:
        told = _whole(result, style.width - 2) if style.full else (cut(result.short, style.width - 2),)
        yield from (_painted(f"  {part}".rstrip(), result.kind, style) for part in told)


def _table(timeline: Timeline, style: Style) -> Iterator[str]:
    widths = _widths(style.width)
    heads = (f"client: {timeline.client}", "events", f"upstream: {timeline.upstream}")
    titles = _joined([_padded(cut(head, width), width) for head, width in zip(heads, widths, strict=True)])
    yield _painted((f"{'#':>4} {'time':>7}".ljust(LEAD) + titles).rstrip(), "head", style)
    yield "─" * (LEAD + sum(widths) + 2 * len(BAR))
    shown = False
    for entry in timeline.entries:
        if isinstance(entry, Row):
            shown = style.frames is None or entry.number in style.frames
        if isinstance(entry, Banner) and (style.frames is None or shown):
            yield from _banner(entry, style)
        elif isinstance(entry, Row) and shown:
            yield from _row(entry, widths, style)


def _banner(banner: Banner, style: Style) -> Iterator[str]:
    lead = f"{'':4} {_time(banner.at)}".ljust(LEAD)
    for part in _wrapped(visible(banner.text), style.width - LEAD - 3):
        yield _painted(f"{lead}── {part}", banner.kind, style)
        lead = " " * LEAD
    yield from _receipt(banner.lines, style)


def _widths(width: int) -> tuple[int, int, int]:
    """Of the three columns. Events need the least: they are in our own words."""
    left = max(width - LEAD - 2 * len(BAR), 3 * NARROWEST)
    events = max(left * 3 // 11, NARROWEST)
    client = (left - events) // 2
    return client, events, left - events - client


def _row(row: Row, widths: Sequence[int], style: Style) -> Iterator[str]:
    cells = zip((row.client, row.events, row.upstream), widths, strict=True)
    columns = [_column(each, width, style) for each, width in cells]
    lead = f"{row.number:>4} {_time(row.at)}".ljust(LEAD)
    for parts in zip_longest(*columns, fillvalue=("", "")):
        shown = [_painted(_padded(text, width), kind, style) for (text, kind), width in zip(parts, widths, strict=True)]
        yield (_painted(lead, "time", style) + _joined(shown)).rstrip()
        lead = " " * LEAD
    yield from _receipt(row.lines, style)


def _column(cells: Iterable[Cell], width: int, style: Style) -> list[tuple[str, str]]:
    """The lines of a cell, each with its kind."""
    if style.full:
        return [(part, cell.kind) for cell in cells for part in _whole(cell, width)]
    return [(fitted(cell, width), cell.kind) for cell in cells]


def fitted(cell: Cell, width: int) -> str:
    """What a cell says, cut to the width. What it is called gives way first: its end tells enough, as in `…delta[0]`,
    and what is said matters more."""
    short = cell.short
    if cell.label and fitting(short, width) < len(short):
        name, bracket, rest = cell.label.partition("[")
        end = max(name.rfind("_"), name.rfind(".")) + 1
        if end:
            short = f"…{name[end:]}{bracket}{rest}{short[len(cell.label) :]}"
    return cut(short, width)


def _whole(cell: Cell, width: int) -> Iterator[str]:
    for line in (cell.full or cell.short).split("\n"):
        yield from _wrapped(visible(line), width)


def _receipt(lines: Iterable[Loss], style: Style, indent: int = LEAD) -> Iterator[str]:
    for line in lines:
        lead = " " * indent + RECEIPT
        for part in _wrapped(visible(str(line)), max(style.width - len(lead), NARROWEST)):
            yield _painted(lead + part, line.severity, style)
            lead = " " * len(lead)


def _time(at: float | None) -> str:
    return f"{at:7.3f}" if at is not None else ""


def _joined(cells: Sequence[str]) -> str:
    return BAR.join(cells)


def _painted(text: str, kind: str, style: Style) -> str:
    colour = COLOURS.get(kind) if style.colour and text.strip() else None
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The text in pieces that fit, cut behind a space where there is one."""
    start = 0
    while (end := fitting(text, width, start)) < len(text):
        space = text.rfind(" ", start + (end - start) // 2, end)
        end = space + 1 if space > start else end
        yield text[start:end].rstrip()
        start = end
    yield text[start:]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))
