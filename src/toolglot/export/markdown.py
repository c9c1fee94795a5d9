"""A conversation as Markdown, message by message.

Nothing that a message says can break the page: text whose own Markdown could (headings, rules, HTML, images from
elsewhere, fences that do not end, lines that look like this page's own marks) stands in a fence that is longer than any
in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import groupby
from operator import attrgetter

from toolglot.export.parts import Part, Parts, role_of
from toolglot.export.visible import one_line, shown
from toolglot.ir import Message

RULE = "---\n\n"

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
_RUNS = re.compile(r"`{3,}")
_WILD = re.compile(
    r"[ \t]*(?:\#{1,6}(?:\s|$)"  # headings
    r"|=+[ \t]*$|(?:-[ \t]*)+$|(?:\*[ \t]*)+$|(?:_[ \t]*){3,}$"  # rules, and lines that make headings
    r"|\[(?:Tool|Reasoning|Refusal|Image|Document|Audio|Video|Source)\b)"  # this page's own marks
)
_CONTAINERS = re.compile(r"(?:[ \t]*+(?:>|(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t])))*+")
"""What lines in quotations and in lists begin with."""
_ACTIVE = re.compile(r"<[A-Za-z/!?]|!\[|\]:")
"""HTML, images, which whoever looks at the page would fetch, and links of the whole page, whose names may be broken."""
_ROLE = re.compile(r"[^\w*]*+(?:\*\*|__).{1,64}:(?:\*\*|__)[^\w]*+")
"""A line that looks like the ones above each message."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[\w.:/ ,-]*[A-Za-z0-9])?")
_PUNCTUATION = re.compile(r"([\\`*_\[\]<>&#!|~])")


def markdown_of(messages: Iterable[Message]) -> Iterator[str]:
    """The page, piece by piece. Neighbouring messages of one role are one section: some APIs have one for each call."""
    parts = Parts()
    begun = False
    for role, group in groupby(messages, key=attrgetter("role")):
        yield f"{RULE if begun else ''}**{_inline(role_of(role))}:**\n\n"
        said = False
        for message in group:
            for part in parts.of(message):
                yield f"{_part(part)}\n\n"
                said = True
        if not said:
            yield "(nothing)\n\n"
        begun = True


def _part(part: Part) -> str:
    return _FORMS.get(part.kind, _labelled)(part)


def _text(part: Part) -> str:
    text = shown(part.text)
    return text.strip("\n") if text.strip() and is_tame(text) else fenced(text, "markdown")


def _reasoning(part: Part) -> str:
    lines = [f"[{part.label}]", *(["", *_text(part).split("\n")] if part.text else [])]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _result(part: Part) -> str:
    texts = [_part(inner) if inner.kind != "text" else fenced(shown(inner.text)) for inner in part.inside]
    return "\n\n".join((_label(part), *(texts or ["(nothing)"])))


def _labelled(part: Part) -> str:
    if not part.text:
        return _label(part)
    return f"{_label(part)}\n\n{fenced(shown(part.text), 'json' if part.is_code else '')}"


def _refusal(part: Part) -> str:
    return f"{_label(part)}\n\n{_text(part)}"


_FORMS = {"text": _text, "reasoning": _reasoning, "result": _result, "error": _result, "refusal": _refusal}


def _label(part: Part) -> str:
    label = f"[{_inline(part.label)}]"
    return f"{label} {_code(part.id)}" if part.id else label


def _inline(text: str) -> str:
    """A name or an address in a line, with no power over it."""
    line = one_line(text)
    return line if _PLAIN_NAME.fullmatch(line) else _PUNCTUATION.sub(r"\\\1", line)


def _code(text: str) -> str:
    line = one_line(text).replace("`", "'")
    return f"`{line}`"


def fenced(text: str, language: str = "") -> str:
    """The text as it stands, whatever marks are in it."""
    longest = max((len(run[0]) for run in _RUNS.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def is_tame(text: str) -> bool:
    """Does this Markdown leave what follows it alone, and look like nothing but what somebody said?"""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark[2][0] == fence[0] and len(mark[2]) >= len(fence) and not mark[3].strip():
                fence = ""
        elif mark and len(mark[1]) < 2 and not (mark[2][0] == "`" and "`" in mark[3]):
            # Further in it may stand in an item of a list, and end with it.
            fence = mark[2]
        elif "```" in line or "~~~" in line or _is_wild(line):
            return False
    return not fence


def _is_wild(line: str) -> bool:
    line = line.rstrip()  # so that the last mark of a rule is not taken for one of an item
    inside = _CONTAINERS.match(line)
    assert inside is not None
    if _WILD.match(line) or _WILD.match(line, inside.end()) or _ACTIVE.search(line):
        return True
    # A colon may be written in other ways.
    return ("**" in line or "__" in line) and bool(_ROLE.fullmatch(unescape(line[inside.end() :]).replace("\\", "")))
