"""Render a timeline as one self-contained HTML page: no script, everything escaped, full frames on click.

The two requests are side by side with their differences marked. Runs of frames that only add content are folded.
Bars show when each frame arrived. They are drawn as SVG, because the page's policy allows no style attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from msgspec import Struct

from toolglot.export.html_page import PAGE_FOOT, escape_html, page_head, preformat
from toolglot.export.visible_text import one_line
from toolglot.receipt import ReceiptLine
from toolglot.recordings.frame_cells import Cell
from toolglot.recordings.request_diff import JsonLine, LineMark, mark_lines, read_json_lines
from toolglot.recordings.timeline import Timeline, TimelineBanner, TimelineRequest, TimelineRow

STYLE = r"""
body { padding: 2.5rem 1.25rem 4rem; font-size: 15px; }
header, main, footer { max-width: 80rem; margin: 0 auto; }
main > p { margin: -.4rem 0 .75rem; font-size: .875rem; }
main > h2 { margin: 2.25rem 0 .75rem; font-size: 1.15rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .75rem 0 0; font-size: .9375rem; }
dt { color: var(--muted); } dd { margin: 0; }
dd.lost { color: var(--lost); font-weight: 600; }
.requests { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem;
  align-items: start; }
.request { padding: .9rem 1rem 1rem; min-width: 0; }
.request h3 { font-size: .9375rem; line-height: 1.4; margin: 0; }
.request p { margin: .15rem 0; font-size: .875rem; color: var(--muted); }
.json { margin-top: .7rem; padding: .5rem 0; background: var(--inset); border-radius: 8px; overflow: hidden; }
.json pre { padding: 0 .75rem 0 1.6rem; text-indent: -.9rem; }
.json i { display: inline-block; width: .9rem; text-indent: 0; font-style: normal; }
.json .only { color: var(--lost); background: var(--lost-card); }
.sent .json .only { color: var(--new); background: var(--new-card); }
.json .moved { color: var(--moved); background: var(--moved-card); }
.json summary { padding: 0 .75rem; font-size: .8125rem; color: var(--muted); }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 0; font-size: .8125rem;
  color: var(--muted); }
.key b { font: 600 .8125rem/1.5 var(--mono); padding: 0 .35rem; border-radius: 4px; margin-right: .3rem; }
.key .gone { color: var(--lost); background: var(--lost-card); }
.key .new { color: var(--new); background: var(--new-card); }
.key .moved { color: var(--moved); background: var(--moved-card); }
.row, .heads { display: grid; grid-template-columns: 2.75rem 8.75rem 1fr minmax(0, .75fr) 1fr; gap: 0 .9rem; }
.heads { position: sticky; top: 0; z-index: 1; background: var(--page); padding: .4rem .75rem; font-size: .8125rem;
  font-weight: 600; border-bottom: 1px solid var(--line); }
.row { padding: .4rem .75rem; border-top: 1px solid var(--line); }
.row > div { min-width: 0; font: .8125rem/1.5 var(--mono); }
.row .number, .row .time { color: var(--muted); }
.frames { overflow: hidden; }
.frames > :first-child { border-top: 0; }
.bar { display: block; width: 100%; height: 5px; margin-top: 3px; border-radius: 3px; background: var(--track); }
.bar rect { fill: var(--bar); }
.row summary, .row .plain { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.row details[open] > summary { white-space: normal; }
.row details > pre { background: var(--inset); border-radius: 6px; padding: .5rem .65rem; margin: .3rem 0; }
.row .plain { padding-left: .9rem; white-space: normal; }
.row .error { color: var(--lost); }
.fold { border-top: 1px solid var(--line); }
.fold > summary { display: grid; grid-template-columns: 2.75rem 8.75rem 1fr; gap: 0 .9rem; padding: .45rem .75rem; }
.fold > summary > span { min-width: 0; font: .8125rem/1.5 var(--mono); }
.fold > summary:hover { background: var(--inset); }
.fold > summary b { font: 600 .875rem/1.5 system-ui, sans-serif; color: var(--link); }
.fold > summary b::before { content: "\25b8\a0"; } .fold[open] > summary b::before { content: "\25be\a0"; }
.fold > .row { background: var(--inset); }
.between { padding: .5rem .75rem; border-top: 1px solid var(--line); background: var(--inset); font-size: .9375rem; }
.between .error { color: var(--lost); font-weight: 600; }
.between .receipt:first-child { margin-top: 0; }
footer ul { margin: 1.25rem 0 0; padding-left: 1.2rem; color: var(--muted); font-size: .9375rem; }
@media (max-width: 52rem) {
  body { padding: 1.5rem .75rem 3rem; }
  .heads { display: none; }
  .row { grid-template-columns: 2.25rem 1fr; padding: .6rem .75rem; gap: .3rem .6rem; }
  .row > .sent, .row > .meaning, .row > .got { grid-column: 2; }
  .row > .sent:empty, .row > .meaning:empty, .row > .got:empty { display: none; }
  .row > .sent::before { content: "upstream sent"; } .row > .meaning::before { content: "meaning"; }
  .row > .got::before { content: "client got"; }
  .row > ::before { display: block; font: .75rem/1.5 system-ui, sans-serif; color: var(--muted); }
  .fold > summary { grid-template-columns: 2.25rem 1fr; gap: .3rem .6rem; }
  .fold > summary > :last-child { grid-column: 2; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
}
"""

MIN_FOLDED_ROWS = 4
"""Minimum number of rows with only more content to fold together."""
MIN_FOLDED_LINES = 8
"""Minimum number of lines that both requests have to fold together."""
CONTEXT_LINES = 2
"""Lines to show around a difference."""
MAX_FOLD_TEXT = 600
"""Maximum characters of the content that a fold shows."""
MAX_VALUE_CHARS = 2_000
"""A longer line of a request is folded."""
_SIGNS: dict[LineMark, str] = {"moved": "~"}
_SEVERITIES = {"loss": "Lost", "note": "Changed"}


class TimeSpan(Struct, frozen=True):
    """The time that all rows share: bars are drawn relative to it."""

    end: float

    def bar(self, start: float, end: float) -> str:
        """Draw a bar from one time to another, on a scale of 100."""
        if self.end <= 0:
            return ""
        left = min(max(start / self.end * 100, 0), 98.5)
        width = max(min(end / self.end * 100, 100) - left, 1.5)
        return (
            '<svg class="bar" viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect x="{left:.1f}" width="{width:.1f}" height="5"/></svg>'
        )


def render_html(timeline: Timeline) -> Iterator[str]:
    """Yield the page, piece by piece."""
    yield f"{page_head(timeline.title, STYLE)}<header>\n<h1>{escape_html(one_line(timeline.title))}</h1>\n"
    facts = "".join(
        f"<dt>{name}</dt><dd{' class=lost' if name == 'lost' else ''}>{escape_html(value)}</dd>\n"
        for name, value in timeline.facts
    )
    yield f"<dl>\n{facts}</dl>\n</header>\n<main>\n" if facts else "</header>\n<main>\n"
    yield from _requests(timeline.requests)
    yield (
        '<h2>Answer</h2>\n<p class="muted">A row is one frame of the upstream, or one that only the client got. Click '
        "a frame to see all of it. “1 + …” adds content to block 1 of the answer.</p>\n"
        '<div class="heads"><span>#</span><span>time</span>'
        f"<span>upstream sent: {escape_html(timeline.upstream)}</span><span>meaning</span>"
        f'<span>client got: {escape_html(timeline.client)}</span></div>\n<div class="card frames">\n'
    )
    yield from _entries(timeline.entries)
    totals = "".join(f"<li>{escape_html(line)}</li>\n" for line in timeline.totals)
    yield f"</div>\n</main>\n<footer>\n<ul>\n{totals}</ul>\n</footer>\n{PAGE_FOOT}"


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _requests(requests: Sequence[TimelineRequest]) -> Iterator[str]:
    if not requests:
        return
    yield "<h2>Requests</h2>\n"
    bodies = [read_json_lines(asked.body.full or asked.body.short) for asked in requests]
    yield '<div class="requests">\n'
    for number, asked in enumerate(requests):
        others = bodies[1 - number] if len(requests) == 2 else bodies[number]
        yield from _request(asked, bodies[number], others, "sent" if number else "")
    yield "</div>\n"
    if len(requests) == 2:
        yield (
            '<p class="key"><span><b class="gone">-</b>only in the client’s request</span>'
            '<span><b class="new">+</b>only in the upstream’s request</span>'
            '<span><b class="moved">~</b>in both, under another name</span></p>\n'
        )


def _request(asked: TimelineRequest, lines: list[JsonLine], others: list[JsonLine], kind: str) -> Iterator[str]:
    about = "".join(f"<p>{escape_html(line)}</p>\n" for line in (asked.about, *asked.lines))
    yield f'<section class="card request {kind}">\n<h3>{escape_html(asked.title)}</h3>\n{about}'
    yield _receipt(asked.receipt)
    yield from (f'<div class="row">{_cell(cell)}</div>\n' for cell in asked.results)
    yield '<div class="json">\n'
    yield from _body(list(mark_lines(lines, others)), "+" if kind else "-")
    yield "</div>\n</section>\n"


def _body(lines: list[tuple[JsonLine, LineMark]], sign: str) -> Iterator[str]:
    """Yield the lines of a request. Long runs without a difference are folded."""
    differs = [mark in ("only", "moved") for _, mark in lines]
    shown = [
        any(differs[max(at - CONTEXT_LINES, 0) : at + CONTEXT_LINES + 1]) or not lines[at][0].text.startswith("   ")
        for at in range(len(lines))
    ]
    at = 0
    for is_shown, group in groupby(shown):
        count = sum(1 for _ in group)
        run = "".join(_line(line, mark, sign) for line, mark in lines[at : at + count])
        at += count
        if is_shown or count < MIN_FOLDED_LINES:
            yield run
        else:
            yield f"<details><summary>{count} lines without a difference</summary>\n{run}</details>\n"


def _line(line: JsonLine, mark: LineMark, sign: str) -> str:
    kind = f' class="{mark}"' if mark in ("only", "moved") else ""
    lead = f"<i>{sign if mark == 'only' else _SIGNS.get(mark, '')}</i>"
    if len(line.text) > MAX_VALUE_CHARS:
        begins = f"{escape_html(line.text[:200])}… ({len(line.text):,} characters)"
        return f"<details><summary{kind}>{lead}{begins}</summary>{preformat(line.text, kind)}</details>\n"
    return preformat(line.text, kind, lead)


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _entries(entries: Sequence[TimelineRow | TimelineBanner]) -> Iterator[str]:
    span = TimeSpan(max((entry.at for entry in entries if entry.at is not None), default=0.0))
    before = 0.0
    for is_folded, group in groupby(entries, key=_only_adds):
        run = list(group)
        rows = [entry for entry in run if isinstance(entry, TimelineRow)]
        folds = is_folded and len(rows) >= MIN_FOLDED_ROWS
        if folds:
            yield f'<details class="fold">{_fold_summary(rows, span, before)}\n'
        for entry in run:
            yield _banner(entry) if isinstance(entry, TimelineBanner) else _row(entry, span, before)
            before = before if entry.at is None else entry.at
        if folds:
            yield "</details>\n"


def _only_adds(entry: TimelineRow | TimelineBanner) -> bool:
    """Return whether a row only adds content."""
    if isinstance(entry, TimelineBanner) or entry.lines:
        return False
    return bool(entry.events) and all(cell.kind == "delta" for cell in entry.events)


def _fold_summary(rows: Sequence[TimelineRow], span: TimeSpan, before: float) -> str:
    said = "".join(cell.text for row in rows for cell in row.events)
    cut = "…" if len(said) > MAX_FOLD_TEXT else ""
    last = rows[-1].at
    bar = span.bar(before, last) if last is not None else ""
    first = f"{rows[0].at:.3f} to " if rows[0].at is not None else ""
    return (
        f'<summary><span class="muted">{rows[0].number}</span><span class="muted">{first}{_time(last)}'
        f"{bar}</span>"
        f"<span><b>{len(rows)} frames that add content</b>"
        f" <br>{escape_html(said[:MAX_FOLD_TEXT])}{cut}</span></summary>"
    )


def _row(row: TimelineRow, span: TimeSpan, before: float) -> str:
    bar = span.bar(before, row.at) if row.at is not None else ""
    columns = "".join(
        f'<div class="{name}">{"".join(map(_cell, cells))}</div>'
        for name, cells in (("sent", row.upstream), ("meaning", row.events), ("got", row.client))
    )
    lines = f'<div class="between">{_receipt(row.lines)}</div>\n' if row.lines else ""
    return (
        f'<div class="row"><div class="number">{row.number}</div><div class="time">{_time(row.at)}{bar}</div>'
        f"{columns}</div>\n{lines}"
    )


def _banner(banner: TimelineBanner) -> str:
    kind = ' class="error"' if banner.kind == "error" else ""
    at = f'<span class="muted">{_time(banner.at)}</span> ' if banner.at is not None else ""
    return f'<div class="between">{at}<span{kind}>{escape_html(banner.text)}</span>{_receipt(banner.lines)}</div>\n'


def _cell(cell: Cell) -> str:
    kind = " error" if cell.kind == "error" else ""
    if not cell.full or cell.full == cell.short:
        return f'<div class="plain{kind}">{escape_html(cell.short)}</div>'
    return (
        f'<details><summary class="{kind.strip()}">{escape_html(cell.short)}</summary>{preformat(cell.full)}</details>'
    )


def _receipt(lines: Iterable[ReceiptLine]) -> str:
    return "".join(
        f'<div class="receipt {line.severity}"><strong>{_SEVERITIES[line.severity]}</strong> '
        f"<code>{escape_html(line.where)}</code> <span>{escape(_reason(line))}</span></div>\n"
        for line in lines
    )


def _reason(line: ReceiptLine) -> str:
    what = "" if line.where.endswith(line.what) else f"{line.what}: "
    return one_line(f"{what}{line.why}")


def _time(at: float | None) -> str:
    return f"{at:.3f} s" if at is not None else ""
