"""Render a conversation as one self-contained HTML page: no script, no network, no active content from a message.

All message text is escaped. Images in the conversation itself are shown; an address is shown and not fetched. The
page's own policy forbids whatever a mistake here might let through.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape
from itertools import groupby
from operator import attrgetter

from toolglot.export.page_parts import ROLES, PagePart, PageParts, role_title
from toolglot.export.visible_text import make_visible, one_line
from toolglot.ir import Media, Message

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
section { border-left: 4px solid #8888; padding: .25rem 1rem; margin: 1.5rem 0; }
section.user { border-color: #2a7de1; } section.assistant { border-color: #2e9e5b; }
section.tool { border-color: #b58900; } section.system, section.developer { border-color: #888; }
h2 { font-size: 1rem; margin: .25rem 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 14px/1.4 ui-monospace, monospace; margin: .5rem 0; }
pre.code, details > pre { background: #8881; padding: .5rem; border-radius: 4px; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; }
.label { font-weight: 600; } .label code { font-weight: 400; opacity: .7; }
.error > .label { color: #c0392b; }
details { margin: .5rem 0; } summary { cursor: pointer; opacity: .8; }
img { max-width: 100%; }
"""

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that are only images: SVG is a document."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def content_policy(style: str) -> str:
    """Return the content security policy: only this style, and the images in the page."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page_head(title: str, style: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(content_policy(style))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_html(one_line(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )


PAGE_FOOT = "</body>\n</html>\n"


def escape_html(text: str) -> str:
    """Escape text."""
    return escape(make_visible(text))


def render_html(messages: Iterable[Message], title: str = "Conversation") -> Iterator[str]:
    """Yield the page, piece by piece. Adjacent messages of one role are one section."""
    parts = PageParts()
    yield f"{page_head(title, STYLE)}<h1>{escape_html(one_line(title))}</h1>\n"
    for role, group in groupby(messages, key=attrgetter("role")):
        kind = role if role in ROLES else "other"
        yield f'<section class="{kind}">\n<h2>{escape_html(one_line(role_title(role)))}</h2>\n'
        said = False
        for message in group:
            for part in parts.of(message):
                yield _part(part)
                said = True
        yield "</section>\n" if said else '<p class="text">(nothing)</p>\n</section>\n'
    yield PAGE_FOOT


def can_show_image(media: Media) -> bool:
    """Tell whether the page can show it."""
    source = media.source
    fits = media.kind == "image" and source.kind == "base64" and source.media_type in IMAGE_TYPES
    return fits and _BASE64.fullmatch(source.data) is not None


def _part(part: PagePart) -> str:
    return _FORMS.get(part.kind, _labelled)(part)


def _text(part: PagePart) -> str:
    return f'<div class="text">{escape_html(part.text)}</div>\n'


def _reasoning(part: PagePart) -> str:
    if not part.text:
        return _label(part)
    return f"<details><summary>{escape_html(part.label)}</summary>\n<pre>{escape_html(part.text)}</pre></details>\n"


def _labelled(part: PagePart) -> str:
    code = f'<pre class="code">{escape_html(part.text)}</pre>\n' if part.text else ""
    return _label(part) + code


def _result(part: PagePart) -> str:
    inside = "".join(
        _part(inner) if inner.kind != "text" else f'<pre class="code">{escape_html(inner.text)}</pre>\n'
        for inner in part.inside
    )
    return f'<div class="{part.kind}">{_label(part)}{inside or "<p>(nothing)</p>"}</div>\n'


def _media(part: PagePart) -> str:
    if part.media is None or not can_show_image(part.media):
        return _labelled(part)
    source = part.media.source
    return f'<p><img src="data:{source.media_type};base64,{source.data}" alt="{escape_html(part.label)}"></p>\n'


_FORMS = {"text": _text, "reasoning": _reasoning, "result": _result, "error": _result, "media": _media}


def _label(part: PagePart) -> str:
    told = f" <code>{escape_html(one_line(part.id))}</code>" if part.id else ""
    return f'<p class="label">[{escape_html(one_line(part.label))}]{told}</p>\n'
