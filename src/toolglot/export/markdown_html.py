"""Render a subset of Markdown as inert HTML; all other markup stays text. The subset is what models write: paragraphs,
headings, lists, quotations, tables, fenced code, and the marks within a line. HTML is text. Links keep only addresses
with a safe scheme. Line breaks and spaces are kept, because much of a conversation is not Markdown. Time is linear:
each line is read once, and markup within a line must close within a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from toolglot.export.html_page import preformat
from toolglot.export.visible_text import make_visible
from toolglot.markdown_parser import (
    ADDRESS,
    LineOpening,
    StyledPiece,
    is_table_divider,
    parse_inline,
    parse_opening,
    table_cells,
)

MAX_MARKDOWN_CHARS = 128 * 1024
"""Longer texts are shown without rendering."""
MAX_DEPTH = 6
"""Lists in lists and quotations in quotations; deeper ones are flat."""
ELEMENTS = {"bold": "strong", "italic": "em", "strike": "del", "code": "code", "link": "a"}
"""The element of each style."""
_SAFE_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s\"'<>\\`]+", re.IGNORECASE)
_FENCE_END = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")
_QUOTE_MARK = re.compile(r" {0,3}> ?")


def render_markdown_html(text: str) -> str:
    """Return the HTML of a text."""
    if len(text) > MAX_MARKDOWN_CHARS:
        return f"{preformat(text)}\n"
    return "".join(_render_blocks(make_visible(text).split("\n"), MAX_DEPTH))


def is_safe_address(address: str) -> bool:
    """Return whether a link may lead there: on the web, or to a mail program."""
    return _SAFE_ADDRESS.fullmatch(address) is not None


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _opening(line: str) -> LineOpening:
    opening = parse_opening(line, final=True)
    assert opening is not None  # the line is final
    return opening


def _render_blocks(lines: Sequence[str], depth: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        if opening.kind == "blank":
            at += 1
            continue
        at, shown = _take_block(lines, at, opening, depth)
        yield shown


def _take_block(lines: Sequence[str], at: int, opening: LineOpening, depth: int) -> tuple[int, str]:
    """Return the number of the line after this block, and the block."""
    match opening.kind:
        case "fence":
            return _take_fence(lines, at, opening)
        case "heading":
            level = min(lines[at][: opening.length].count("#") + 2, 6)
            return at + 1, f"<h{level}>{render_inline(lines[at][opening.length :].rstrip(' #'))}</h{level}>\n"
        case "rule":
            return at + 1, "<hr>\n"
        case "quote" if depth:
            return _take_quote(lines, at, depth)
        case "item" if depth:
            return _take_list(lines, at, opening, depth)
        case "row" if (
            at + 1 < len(lines) and lines[at + 1].lstrip().startswith("|") and is_table_divider(lines[at + 1])
        ):
            return _take_table(lines, at)
    return _take_paragraph(lines, at)


def _take_paragraph(lines: Sequence[str], at: int) -> tuple[int, str]:
    """Take this line and the plain lines after it."""
    first = at
    at += 1
    while at < len(lines) and _opening(lines[at]).kind == "text":
        at += 1
    return at, f"<p>{render_inline(chr(10).join(lines[first:at]))}</p>\n"


def _take_fence(lines: Sequence[str], at: int, opening: LineOpening) -> tuple[int, str]:
    """Take fenced code. If the fence is not closed, it is the rest."""
    first = at + 1
    at = first
    while at < len(lines):
        end = _FENCE_END.fullmatch(lines[at])
        if end is not None and end[1][0] == opening.mark[0] and len(end[1]) >= len(opening.mark):
            break
        at += 1
    return at + 1, f'<pre class="code"><code>{escape(chr(10).join(lines[first:at]))}</code></pre>\n'


def _take_quote(lines: Sequence[str], at: int, depth: int) -> tuple[int, str]:
    quoted: list[str] = []
    while at < len(lines) and (mark := _QUOTE_MARK.match(lines[at])) is not None:
        quoted.append(lines[at][mark.end() :])
        at += 1
    return at, f"<blockquote>{''.join(_render_blocks(quoted, depth - 1))}</blockquote>\n"


def _take_list(lines: Sequence[str], at: int, opening: LineOpening, depth: int) -> tuple[int, str]:
    """Take the items of one list. The lines of an item are blocks of their own."""
    mark, indent = opening.shown.strip(), _indent(lines[at])
    is_bulleted = mark == "•"
    items: list[str] = []
    while at < len(lines) and opening.kind == "item" and (opening.shown.strip() == "•") == is_bulleted:
        at, content = _take_item(lines, at, opening, indent + 1)
        items.append(f"<li>{''.join(_render_blocks(content, depth - 1))}</li>\n")
        following = next((number for number in range(at, len(lines)) if lines[number].strip()), len(lines))
        if following == len(lines) or _indent(lines[following]) > indent + 1:
            break
        opening = _opening(lines[following])
        at = following if opening.kind == "item" else at
    tag, start = ("ul", "") if is_bulleted else ("ol", f' start="{int(mark[:-1])}"')
    return at, f"<{tag}{start}>\n{''.join(items)}</{tag}>\n"


def _take_item(lines: Sequence[str], at: int, opening: LineOpening, indent: int) -> tuple[int, list[str]]:
    """Return the number of the line after an item, and its lines. They are indented further than `indent`, or follow
    its text directly."""
    content = [lines[at][opening.length :]]
    at += 1
    while at < len(lines):
        line = lines[at]
        is_inside = not line.strip() or _indent(line) > indent
        if not is_inside and (not content[-1].strip() or _opening(line).kind != "text"):
            break
        content.append(line[min(_indent(line), opening.length) :])
        at += 1
    while not content[-1].strip() and len(content) > 1:
        content.pop()
    return at, content


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _take_table(lines: Sequence[str], at: int) -> tuple[int, str]:
    head = "".join(f"<th>{render_inline(cell)}</th>" for cell in table_cells(lines[at]))
    rows: list[str] = []
    at += 2
    while at < len(lines) and lines[at].lstrip().startswith("|"):
        rows.append("".join(f"<td>{render_inline(cell)}</td>" for cell in table_cells(lines[at])))
        at += 1
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return at, f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}</table></div>\n'


# ── inside of a paragraph ────────────────────────────────────────────────────────────────────────────────────────────


def render_inline(text: str) -> str:
    """Return the HTML of a paragraph's text."""
    pieces = [piece for piece in parse_inline(text, final=True) if ADDRESS not in piece.style]
    return "".join(
        _render_piece("".join(piece.text for piece in group), style, target)
        for (style, target), group in groupby(pieces, key=_look)
    )


def _look(piece: StyledPiece) -> tuple[tuple[str, ...], str]:
    return piece.style, piece.target


def _render_piece(text: str, style: tuple[str, ...], target: str) -> str:
    shown = escape(text)
    for name in reversed(dict.fromkeys(style)):
        if name != "link":
            shown = f"<{ELEMENTS[name]}>{shown}</{ELEMENTS[name]}>"
        elif is_safe_address(target):
            address = escape(target)
            shown = f'<a href="{address}" title="{address}" rel="noopener noreferrer nofollow">{shown}</a>'
        else:
            shown = f"{shown} ({escape(target)})"
    return shown
