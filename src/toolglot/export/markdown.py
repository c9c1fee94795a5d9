"""Render a conversation as Markdown, message by message.

No message can break the page: text whose own Markdown could (headings, rules, HTML, external images, unclosed fences,
lines that look like this page's own marks) is put in a fence that is longer than any in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import groupby
from operator import attrgetter

from toolglot.export.page_parts import PagePart, PageParts, role_title
from toolglot.export.visible_text import make_visible, one_line
from toolglot.ir import Message

RULE = "---\n\n"

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
_RUNS = re.compile(r"`{3,}")
_UNSAFE_LINE = re.compile(
    r"[ \t]*(?:\#{1,6}(?:\s|$)"  # headings
    r"|=+[ \t]*$|(?:-[ \t]*)+$|(?:\*[ \t]*)+$|(?:_[ \t]*){3,}$"  # rules, and lines that make headings
    r"|\[(?:Tool|Reasoning|Refusal|Image|Document|Audio|Video|Source)\b)"  # this page's own marks
)
_CONTAINERS = re.compile(r"(?:[ \t]*+(?:>|(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t]))|(?!))*+")
"""Beginnings of lines in quotations and lists."""
_ACTIVE_MARKUP = re.compile(r"<[A-Za-z/!?]|!\[|\]:")
"""HTML, images, which a viewer of the page would fetch, and link definitions, whose names may span lines."""
_ROLE = re.compile(r"[^\w*]*+(?:\*\*|__).{1,64}:(?:\*\*|__)[^\w]*+")
"""A line that looks like the ones above each message."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[\w.:/ ,-]*[A-Za-z0-9])?")
_PUNCTUATION = re.compile(r"([\\`*_\[\]<>&#!|~])")


def render_markdown(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the page, piece by piece. Adjacent messages of one role share a section, because some APIs have a message
    for each call.
    """
    parts = PageParts()
    begun = False
    for role, group in groupby(messages, key=attrgetter("role")):
        yield f"{RULE if begun else ''}**{_inline(role_title(role))}:**\n\n"
        said = False
        for message in group:
            for part in parts.of(message):
                yield f"{_part(part)}\n\n"
                said = True
        if not said:
            yield "(nothing)\n\n"
        begun = True


def _part(part: PagePart) -> str:
    return _FORMS.get(part.kind, _add_label)(part)


def _text(part: PagePart) -> str:
    text = make_visible(part.text)
    return text.strip("\n") if text.strip() and is_safe_markdown(text) else fence_text(text, "markdown")


def _reasoning(part: PagePart) -> str:
    lines = [f"[{part.label}]", *(["", *_text(part).split("\n")] if part.text else [])]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _result(part: PagePart) -> str:
    texts = [_part(inner) if inner.kind != "text" else fence_text(make_visible(inner.text)) for inner in part.inside]
    return "\n\n".join((_label(part), *(texts or ["(nothing)"])))


def _add_label(part: PagePart) -> str:
    if not part.text:
        return _label(part)
    return f"{_label(part)}\n\n{fence_text(make_visible(part.text), 'json' if part.is_code else '')}"


def _refusal(part: PagePart) -> str:
    return f"{_label(part)}\n\n{_text(part)}"


_FORMS = {"text": _text, "reasoning": _reasoning, "result": _result, "error": _result, "refusal": _refusal}


def _label(part: PagePart) -> str:
    label = f"[{_inline(part.label)}]"
    return f"{label} {_code(part.id)}" if part.id else label


def _inline(text: str) -> str:
    """Escape a name or an address within a line."""
    line = one_line(text)
    return line if _PLAIN_NAME.fullmatch(line) else _PUNCTUATION.sub(r"\\\1", line)


def _code(text: str) -> str:
    line = one_line(text).replace("`", "'")
    return f"`{line}`"


def fence_text(text: str, language: str = "") -> str:
    """Fence the text unchanged, regardless of the fences in it."""
    longest = max((len(run[0]) for run in _RUNS.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def is_safe_markdown(text: str) -> bool:
    """Return whether this Markdown cannot affect the following text and does not look like the page's own marks."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark[2][0] == fence[0] and len(mark[2]) >= len(fence) and not mark[3].strip():
                fence = ""
        elif mark and len(mark[1]) < 2 and not (mark[2][0] == "`" and "`" in mark[3]):
            # With more indentation, it may belong to a list item, and end with it.
            fence = mark[2]
        elif "```" in line or "~~~" in line or _is_unsafe_line(line):
            return False
    return not fence


def _is_unsafe_line(line: str) -> bool:
    line = line.rstrip()  # so that the last mark of a rule is not taken for a list item
    inside = _CONTAINERS.match(line)
    assert inside is not None
    if _UNSAFE_LINE.match(line) or _UNSAFE_LINE.match(line, inside.end()) or _ACTIVE_MARKUP.search(line):
        return True
    # A colon may be written in other ways.
    return ("**" in line or "__" in line) and bool(_ROLE.fullmatch(unescape(line[inside.end() :]).replace("\\", "")))
