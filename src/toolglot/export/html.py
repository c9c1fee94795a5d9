"""Render a conversation as one self-contained HTML page: no script, no network, no active content from a message.

All message text is escaped; its Markdown is rendered by `markdown_html`. The page shows images in the conversation
itself. It shows addresses of other images without fetching them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import chain, groupby, islice
from operator import attrgetter

from toolglot.export.html_page import PAGE_FOOT, escape_html, page_head, preformat
from toolglot.export.markdown_html import MAX_MARKDOWN_CHARS, render_markdown_html
from toolglot.export.page_parts import ROLES, PagePart, PageParts, role_title
from toolglot.export.visible_text import one_line
from toolglot.ir import Media, Message, Text

STYLE = """
body { padding: 2.5rem 1rem 4rem; }
header, section { max-width: 46rem; margin: 0 auto; }
header { margin-bottom: 2rem; }
header p { margin: 0; color: var(--muted); font-size: .875rem; }
section { margin-bottom: 1.5rem; }
section > h2 { font-size: .8125rem; font-weight: 600; color: var(--muted); margin-bottom: .3rem; }
section.user > .text { background: var(--user); border: 1px solid var(--user-line); border-radius: 12px;
  padding: .1rem 1rem; }
.text { margin: .4rem 0; }
.text p { white-space: pre-wrap; }
.text h3, .text h4, .text h5, .text h6 { font-size: 1.05rem; line-height: 1.35; margin: 1.2rem 0 .4rem; }
.text h3 { font-size: 1.2rem; }
.text ul, .text ol { margin: .6rem 0; padding-left: 1.6rem; }
.text li > p { margin: .2rem 0; }
.text blockquote { margin: .6rem 0; padding-left: .9rem; border-left: 3px solid var(--line); color: var(--muted); }
.text hr { border: 0; border-top: 1px solid var(--line); margin: 1.2rem 0; }
.text :not(pre) > code { background: var(--inset); border: 1px solid var(--line); border-radius: 5px;
  padding: .05em .35em; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .9375rem; line-height: 1.45; }
th, td { border: 1px solid var(--line); padding: .35rem .7rem; text-align: left; vertical-align: top;
  overflow-wrap: break-word; min-width: 4rem; }
th { background: var(--inset); }
pre.code { background: var(--inset); border: 1px solid var(--line); border-radius: 8px; padding: .65rem .85rem;
  margin: .6rem 0; }
.card { margin: .6rem 0; overflow: hidden; }
.card > .card { border-radius: 0; }
.card > .label, .card > summary { padding: .45rem .85rem; font-size: .875rem; line-height: 1.5; }
.card > summary { color: var(--muted); }
.size { white-space: nowrap; font-size: .8125rem; border: 1px solid var(--line); border-radius: 99px;
  padding: 0 .5rem; margin-left: .3rem; }
.label { margin: 0; display: flex; flex-wrap: wrap; gap: 0 .6rem; align-items: baseline; }
.label b { font-weight: 600; }
.label span { color: var(--muted); }
.call > .label { background: var(--inset); }
.label code { color: var(--muted); }
.card > :not(.label):not(summary) { margin: 0; border: 0; border-top: 1px solid var(--line); border-radius: 0;
  padding: .55rem .85rem; }
.card > .text { padding: .1rem .85rem; }
.card > details > summary { color: var(--muted); font-size: .875rem; }
.card > details > pre { margin-top: .5rem; }
.error { border-color: var(--lost-line); }
.error > .label, .error > .label * { color: var(--lost); }
.error > .label { background: var(--lost-card); }
.refusal > .label, .refusal > .label * { color: var(--note); background: var(--note-card); }
.empty { color: var(--muted); font-style: italic; }
"""

DEFAULT_TITLE = "Conversation"
MAX_TITLE_CHARS = 80
MESSAGES_BEFORE_TITLE = 32
"""Messages to search for the first text of the user."""
SHOWN_LINES, SHOWN_CHARS = 24, 2_000
"""Arguments and results up to this size are shown at once; longer ones are folded."""

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that are only images: SVG is a document."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_FOLDED_ROLES = {"system", "developer"}
_INJECTED = re.compile(r"\s*<")
"""Texts that an agent puts before the user's own, for example `<system-reminder>`."""


def render_html(messages: Iterable[Message], title: str | None = None, *, source: str = "") -> Iterator[str]:
    """Yield the page, piece by piece. Adjacent messages of one role are one section. Without a title, the user's first
    words are the title. `source` is shown below it."""
    arriving = iter(messages)
    first = list(islice(arriving, MESSAGES_BEFORE_TITLE))
    heading = one_line(find_title(first) if title is None else title)
    below = f"<p>{escape_html(one_line(source))}</p>\n" if source else ""
    yield f"{page_head(heading, STYLE)}<header>\n<h1>{escape_html(heading)}</h1>\n{below}</header>\n"
    parts = PageParts()
    for role, group in groupby(chain(first, arriving), key=attrgetter("role")):
        yield from _section(role, (part for message in group for part in parts.of(message)))
    yield PAGE_FOOT


def find_title(messages: Iterable[Message]) -> str:
    """Return the user's first words, shortened to a title."""
    blocks = (block for message in messages if message.role == "user" for block in message.content)
    texts = [block.text for block in blocks if isinstance(block, Text) and block.text.strip()]
    text = next((text for text in texts if not _INJECTED.match(text)), DEFAULT_TITLE)
    line = one_line(text.strip()[: 4 * MAX_TITLE_CHARS].split("\n", 1)[0]).lstrip("#>*- ") or DEFAULT_TITLE
    if len(line) <= MAX_TITLE_CHARS:
        return line
    words = line[:MAX_TITLE_CHARS].rpartition(" ")[0]
    return f"{words or line[: MAX_TITLE_CHARS - 1]}…"


def _section(role: str, parts: Iterator[PagePart]) -> Iterator[str]:
    name = role.partition(" (")[0]  # a chat adds the model's name
    kind = name if name in ROLES else "other"
    yield f'<section class="{kind}">\n<h2>{escape_html(one_line(role_title(role)))}</h2>\n'
    is_empty = True
    for part in parts:
        yield _folded_text(part) if kind in _FOLDED_ROLES and part.kind == "text" else _part(part)
        is_empty = False
    yield '<p class="empty">(nothing)</p>\n</section>\n' if is_empty else "</section>\n"


def can_show_image(media: Media) -> bool:
    """Return whether the page can show it."""
    source = media.source
    fits = media.kind == "image" and source.kind == "base64" and source.media_type in IMAGE_TYPES
    return fits and _BASE64.fullmatch(source.data) is not None


def _part(part: PagePart) -> str:
    return _FORMS.get(part.kind, _card)(part)


def _text(part: PagePart) -> str:
    if len(part.text) > MAX_MARKDOWN_CHARS:
        return f'<div class="card">{_code(part.text)}</div>\n'
    return f'<div class="text">{render_markdown_html(part.text)}</div>\n'


def _folded_text(part: PagePart) -> str:
    summary = _summary(part.text, f"{len(part.text):,} characters")
    return f'<details class="card">{summary}\n{_text(part)}</details>\n'


def _summary(text: str, size: str) -> str:
    """Return the visible line of a folded text: how it begins, and its size."""
    begins = one_line(text[: 4 * MAX_TITLE_CHARS])
    if len(begins) > MAX_TITLE_CHARS or len(text) > 4 * MAX_TITLE_CHARS:
        begins = f"{begins[:MAX_TITLE_CHARS].rstrip(' .,:;')} …"
    return f'<summary>{escape(begins)} <span class="size">{size}</span></summary>'


def _reasoning(part: PagePart) -> str:
    if not part.text:
        return _card(part)
    return f'<details class="card"><summary>{escape_html(part.label)}</summary>\n{_text(part)}</details>\n'


def _card(part: PagePart) -> str:
    inside = _text(part) if part.kind == "refusal" else _code(part.text) if part.text else ""
    return f'<div class="card {part.kind}">{_label(part)}{inside}</div>\n'


def _result(part: PagePart) -> str:
    inside = "".join(_code(inner.text) if inner.kind == "text" else _part(inner) for inner in part.inside)
    return f'<div class="card {part.kind}">{_label(part)}{inside or _NOTHING}</div>\n'


_NOTHING = '<p class="empty">(nothing)</p>'


def _code(text: str) -> str:
    """Show a text for machines, folded if it is long."""
    shown = f"{preformat(text)}\n"
    lines = text.count("\n") + 1
    if lines <= SHOWN_LINES and len(text) <= SHOWN_CHARS:
        return shown
    size = f"{lines:,} lines" if lines > SHOWN_LINES else f"{len(text):,} characters"
    return f"<details>{_summary(text, size)}\n{shown}</details>\n"


def _media(part: PagePart) -> str:
    if part.media is None or not can_show_image(part.media):
        return _card(part)
    source = part.media.source
    return f'<p><img src="data:{source.media_type};base64,{source.data}" alt="{escape_html(part.label)}"></p>\n'


_FORMS = {"text": _text, "reasoning": _reasoning, "result": _result, "error": _result, "media": _media}


def _label(part: PagePart) -> str:
    kind, colon, name = one_line(part.label).partition(": ")
    shown = f"<span>{escape(kind)}</span> <b>{escape(name)}</b>" if colon else f"<b>{escape(kind)}</b>"
    identity = f" <code>{escape_html(one_line(part.id))}</code>" if part.id else ""
    return f'<p class="label">{shown}{identity}</p>\n'
