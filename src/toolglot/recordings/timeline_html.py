"""Render a timeline as one self-contained HTML page: no script, everything escaped, full frames on click."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolglot.export.html import PAGE_FOOT, escape_html, page_head
from toolglot.receipt import Loss
from toolglot.recordings.frame_cells import Cell
from toolglot.recordings.timeline import Timeline, TimelineBanner, TimelineRequest, TimelineRow

STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem; }
h1 { font-size: 1.1rem; overflow-wrap: anywhere; } h2 { font-size: 1rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th { text-align: left; position: sticky; top: 0; background: Canvas; }
th, td { border-bottom: 1px solid #8884; padding: .2rem .4rem; vertical-align: top; overflow-wrap: anywhere; }
th.number { width: 3rem; } th.time { width: 4.5rem; }
td { font: 12px/1.4 ui-monospace, monospace; }
td.number, td.time { text-align: right; opacity: .7; }
summary { cursor: pointer; overflow-wrap: anywhere; }
body > details:not([open]) > summary { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .4rem; }
tr.banner td { background: #8882; } .loss, .error { color: #c0392b; } .note { color: #9a6b00; }
"""


def render_html(timeline: Timeline) -> Iterator[str]:
    """Yield the page, piece by piece."""
    yield f"{page_head(timeline.title, STYLE)}<h1>{escape_html(timeline.title)}</h1>\n"
    yield from map(_request, timeline.requests)
    yield (
        '<table>\n<thead><tr><th class="number">#</th><th class="time">time</th>'
        f"<th>client: {escape_html(timeline.client)}</th><th>events</th>"
        f"<th>upstream: {escape_html(timeline.upstream)}</th></tr>"
        "</thead>\n<tbody>\n"
    )
    for entry in timeline.entries:
        yield _banner(entry) if isinstance(entry, TimelineBanner) else _row(entry)
    yield "</tbody>\n</table>\n<ul>\n"
    yield from (f"<li>{escape_html(line)}</li>\n" for line in timeline.totals)
    yield f"</ul>\n{PAGE_FOOT}"


def _request(asked: TimelineRequest) -> str:
    about = "".join(f"<p>{escape_html(line)}</p>\n" for line in (asked.about, *asked.lines))
    results = "".join(map(_cell, asked.results))
    return f"<h2>{escape_html(asked.title)}</h2>\n{about}{_receipt(asked.receipt)}{_cell(asked.body)}{results}"


def _row(row: TimelineRow) -> str:
    columns = "".join(f"<td>{''.join(map(_cell, cells))}</td>" for cells in (row.client, row.events, row.upstream))
    lines = (
        f'<tr class="banner"><td></td><td></td><td colspan="3">{_receipt(row.lines)}</td></tr>\n' if row.lines else ""
    )
    return f'<tr><td class="number">{row.number}</td><td class="time">{_time(row.at)}</td>{columns}</tr>\n{lines}'


def _banner(banner: TimelineBanner) -> str:
    kind = ' class="error"' if banner.kind == "error" else ""
    told = f"<div{kind}>{escape_html(banner.text)}</div>{_receipt(banner.lines)}"
    return f'<tr class="banner"><td></td><td class="time">{_time(banner.at)}</td><td colspan="3">{told}</td></tr>\n'


def _cell(cell: Cell) -> str:
    kind = ' class="error"' if cell.kind == "error" else ""
    if not cell.full or cell.full == cell.short:
        return f"<div{kind}>{escape_html(cell.short)}</div>\n"
    return f"<details><summary{kind}>{escape_html(cell.short)}</summary><pre>{escape_html(cell.full)}</pre></details>\n"


def _receipt(lines: Iterable[Loss]) -> str:
    return "".join(f'<div class="{line.severity}">{escape_html(str(line))}</div>\n' for line in lines)


def _time(at: float | None) -> str:
    return f"{at:.3f}" if at is not None else ""
