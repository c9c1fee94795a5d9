"""A conversation as one page of HTML that needs nothing else: no script, no network, nothing from a message that acts.

Everything that was said is escaped. Images are shown where they stand in the conversation itself; an address is told
and not fetched. The page's own policy forbids whatever a mistake here might let through.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape
from itertools import groupby
from operator import attrgetter

from toolglot.export.parts import ROLES, Part, Parts, role_of
from toolglot.export.visible import one_line, shown
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

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of images that are pictures and nothing else: SVG is a document."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def policy(style: str) -> str:
    """What a page with this style may do: show it, and the images that stand in it."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def head(title: str, style: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(style))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(one_line(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )


FOOT = "</body>\n</html>\n"


def safe(text: str) -> str:
    """Text as nothing but text."""
    return escape(shown(text))


def html_of(messages: Iterable[Message], title: str = "Conversation") -> Iterator[str]:
    """The page, piece by piece. Neighbouring messages of one role are one section."""
    parts = Parts()
    yield f"{head(title, STYLE)}<h1>{safe(one_line(title))}</h1>\n"
    for role, group in groupby(messages, key=attrgetter("role")):
        kind = role if role in ROLES else "other"
        yield f'<section class="{kind}">\n<h2>{safe(one_line(role_of(role)))}</h2>\n'
        said = False
        for message in group:
            for part in parts.of(message):
                yield _part(part)
                said = True
        yield "</section>\n" if said else '<p class="text">(nothing)</p>\n</section>\n'
    yield FOOT


def is_picture(media: Media) -> bool:
    """Can the page show it?"""
    source = media.source
    fits = media.kind == "image" and source.kind == "base64" and source.media_type in PICTURES
    return fits and _BASE64.fullmatch(source.data) is not None


def _part(part: Part) -> str:
    return _FORMS.get(part.kind, _labelled)(part)


def _text(part: Part) -> str:
    return f'<div class="text">{safe(part.text)}</div>\n'


def _reasoning(part: Part) -> str:
    if not part.text:
        return _label(part)
    return f"<details><summary>{safe(part.label)}</summary>\n<pre>{safe(part.text)}</pre></details>\n"


def _labelled(part: Part) -> str:
    code = f'<pre class="code">{safe(part.text)}</pre>\n' if part.text else ""
    return _label(part) + code


def _result(part: Part) -> str:
    inside = "".join(
        _part(inner) if inner.kind != "text" else f'<pre class="code">{safe(inner.text)}</pre>\n'
        for inner in part.inside
    )
    return f'<div class="{part.kind}">{_label(part)}{inside or "<p>(nothing)</p>"}</div>\n'


def _media(part: Part) -> str:
    if part.media is None or not is_picture(part.media):
        return _labelled(part)
    source = part.media.source
    return f'<p><img src="data:{source.media_type};base64,{source.data}" alt="{safe(part.label)}"></p>\n'


_FORMS = {"text": _text, "reasoning": _reasoning, "result": _result, "error": _result, "media": _media}


def _label(part: Part) -> str:
    told = f" <code>{safe(one_line(part.id))}</code>" if part.id else ""
    return f'<p class="label">[{safe(one_line(part.label))}]{told}</p>\n'
