"""The frame of every HTML page: one file, no script, no network, and the shared style.

All text is escaped. In addition, the page's content security policy allows only this style, by its hash, and images
inside the page.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape

from toolglot.export.visible_text import make_visible, one_line

PAGE_STYLE = """
:root {
  color-scheme: light dark;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  --page: #f7f7f5; --card: #ffffff; --inset: #f2f2ef; --line: #dfdfda; --text: #1d2126; --muted: #5a626c;
  --link: #0b57c2; --user: #e8f0fc; --user-line: #b9d0f2; --bar: #4f7fd6; --track: #e6e6e1;
  --lost: #9c1f14; --lost-card: #fdedeb; --lost-line: #efc1bc; --note: #6d4b00; --note-card: #fdf4dc;
  --note-line: #ead59b; --new: #125c2d; --new-card: #e7f5ea; --moved: #274b93; --moved-card: #ebf1fd;
}
@media (prefers-color-scheme: dark) { :root {
  --page: #15171a; --card: #1d2024; --inset: #262a2f; --line: #363b42; --text: #e4e7ea; --muted: #a3abb5;
  --link: #8ab8ff; --user: #1c2a40; --user-line: #33496b; --bar: #6e9bea; --track: #2b3036;
  --lost: #ffb3aa; --lost-card: #3a1f1f; --lost-line: #6b3532; --note: #f0cf80; --note-card: #332a13;
  --note-line: #5d4d20; --new: #97e0ac; --new-card: #17301f; --moved: #b0caff; --moved-card: #1c2941;
} }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text); overflow-wrap: anywhere;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; letter-spacing: -.01em; margin: 0 0 .35rem; text-wrap: balance; }
h2 { font-size: 1.05rem; line-height: 1.4; margin: 0; }
p { margin: .6rem 0; }
a { color: var(--link); text-underline-offset: .15em; }
pre, code { font: .8125rem/1.55 var(--mono); }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; }
summary { cursor: pointer; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 4px; }
img { display: block; max-width: 100%; height: auto; border-radius: 8px; }
.muted { color: var(--muted); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.receipt { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline; margin: .4rem 0;
  padding: .4rem .75rem;
  border: 1px solid; border-radius: 8px; font-size: .875rem; line-height: 1.5; }
.receipt > strong { font-size: .75rem; letter-spacing: .03em; text-transform: uppercase; }
.receipt.loss { color: var(--lost); background: var(--lost-card); border-color: var(--lost-line); }
.receipt.note { color: var(--note); background: var(--note-card); border-color: var(--note-line); }
@media print { body { background: none; } }
"""

LAYOUT_CHARS = 100_000
"""Characters after which a long text gets a possible line break. Chromium cannot break words of millions of characters.
"""
PAGE_FOOT = "</body>\n</html>\n"


def content_policy(style: str) -> str:
    """Return the content security policy: only this style, and the images in the page."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page_head(title: str, own_style: str) -> str:
    """Return everything up to the body. `own_style` is added to the style of all pages."""
    style = PAGE_STYLE + own_style
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(content_policy(style))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape_html(one_line(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )


def escape_html(text: str) -> str:
    """Escape text. Control characters and characters that change the text direction become visible escapes."""
    return escape(make_visible(text))


def preformat(text: str, attributes: str = "", lead: str = "") -> str:
    """Return the escaped text in a `pre` element; `lead` is HTML before it."""
    pieces = (escape_html(text[at : at + LAYOUT_CHARS]) for at in range(0, len(text), LAYOUT_CHARS))
    return f"<pre{attributes}>{lead}{'<wbr>'.join(pieces)}</pre>"
