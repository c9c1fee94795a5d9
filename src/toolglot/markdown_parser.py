"""Parse the subset of Markdown that terminals and pages show, line by line, and determine the final part of a growing
line.

A line may continue in many ways: `**` may open bold text or be two stars. Text before the first ambiguity can no longer
change, and only that text is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

MAX_MARK_DISTANCE = 240
"""Maximum characters within which a mark must be closed; beyond them it is literal."""
MAX_WORD = 80
"""Text without a space for this long is shown without waiting for one."""
MAX_UNDECIDED = 2_000
"""Maximum characters of a line whose kind only its end determines."""

Style: TypeAlias = tuple[str, ...]
"""Names of `CODES` in `chat/render.py`, and of `ELEMENTS` in `export/markdown_html.py`."""


ADDRESS = "faint"
"""Style of a link's address after its text."""


class StyledPiece(Struct, frozen=True):
    """Text of one style; `end` is where its source ends in the line. Spaces between words are separate pieces."""

    text: str
    style: Style
    end: int
    target: str = ""
    """Address of a link, for each piece of its text."""

    @property
    def is_space(self) -> bool:
        return not self.style and self.text.isspace()


# ── inside of a line ─────────────────────────────────────────────────────────────────────────────────────────────────

_SPECIAL = re.compile(r"[\\`*_~\[]")
_WORDS = re.compile(r"\s+|\S+")
_RUNS = {mark: re.compile(re.escape(mark) + "+") for mark in "`*_~"}
_LINK = re.compile(r"\[([^\[\]]{1,300})\]\(<?([^()<>\s]{1,500})>?\)")
_LINK_BEGUN = re.compile(r"\[[^\[\]]{0,300}(?:\](?:\(<?[^()<>\s]{0,500}>?)?)?")
_EMPHASIS: dict[str, Style] = {
    "*": ("italic",),
    "**": ("bold",),
    "***": ("bold", "italic"),
    "_": ("italic",),
    "__": ("bold",),
    "___": ("bold", "italic"),
    "~~": ("strike",),
}
_CLOSERS = {
    run: re.compile(rf"(?<![\s{re.escape(run[0])}]){re.escape(run)}(?!{re.escape(run[0])})") for run in _EMPHASIS
}
"""The closer of each mark: the same run, not after a space. It is one pattern, so that a mark without a closer is
cheap."""


class _Mark(Struct, frozen=True):
    """The meaning of a special character: styled pieces up to `end`; `doubt`: not known yet."""

    end: int = 0
    pieces: tuple[StyledPiece, ...] = ()
    doubt: bool = False


def parse_inline(text: str, *, final: bool, style: Style = ()) -> list[StyledPiece]:
    """Return the pieces of a text, up to the first doubt; of the whole text if it is `final`."""
    pieces: list[StyledPiece] = []
    at = plain = 0
    while (found := _SPECIAL.search(text, at)) is not None:
        mark = _READERS[found[0]](text, found.start(), final, style)
        if mark is None:
            run = _RUNS[found[0]].match(text, found.start()) if found[0] in _RUNS else None
            at = run.end() if run else found.end()  # it is literal
            continue
        pieces += split_words(text, plain, found.start(), style)
        if mark.doubt:
            return pieces
        pieces += mark.pieces
        at = plain = mark.end
    return pieces + split_words(text, plain, len(text), style)


def certain_pieces(pieces: list[StyledPiece], text: str) -> list[StyledPiece]:
    """Return the pieces that can be shown before the rest arrives: whole words, with the characters that directly
    follow them."""
    last = max((number for number, piece in enumerate(pieces) if piece.is_space), default=-1)
    if len(text) - (pieces[last].end if last >= 0 else 0) > MAX_MARK_DISTANCE + MAX_WORD:
        return pieces
    behind = pieces[last + 1 :]
    if len(behind) == 1 and not behind[0].style and len(behind[0].text) > MAX_WORD and behind[0].end == len(text):
        return pieces
    return pieces[: last + 1]


def split_words(text: str, start: int, end: int, style: Style = ()) -> list[StyledPiece]:
    """Split into words and spaces, each a piece."""
    return [StyledPiece(word[0], style, word.end()) for word in _WORDS.finditer(text, start, end)]


def _read_escape(text: str, at: int, final: bool, style: Style) -> _Mark | None:
    following = text[at + 1 : at + 2]
    if not following:
        return None if final else _Mark(doubt=True)
    if following.isalnum() or following.isspace() or not following.isascii():
        return None
    return _Mark(at + 2, (StyledPiece(following, style, at + 2),))


def _code(text: str, at: int, final: bool, style: Style) -> _Mark | None:
    run = _RUNS["`"].match(text, at)
    assert run is not None
    for closing in _RUNS["`"].finditer(text, run.end(), run.end() + MAX_MARK_DISTANCE):
        if len(closing[0]) == len(run[0]):
            if closing.end() == len(text) and not final:
                break
            inside = text[run.end() : closing.start()]
            bare = inside[1:-1] if inside.strip() and inside[0] == inside[-1] == " " and len(inside) > 2 else inside
            return _Mark(closing.end(), (StyledPiece(bare, (*style, "code"), closing.end()),))
    return _open_end(text, run.end(), final)


def _emphasis(text: str, at: int, final: bool, style: Style) -> _Mark | None:
    run = _RUNS[text[at]].match(text, at)
    assert run is not None
    added = _EMPHASIS.get(run[0])
    if run.end() == len(text):
        return None if final or len(run[0]) > 3 else _Mark(doubt=True)
    inside_word = text[at] == "_" and at > 0 and text[at - 1].isalnum()
    if added is None or text[run.end()].isspace() or inside_word:
        return None
    for closing in _CLOSERS[run[0]].finditer(text, run.end(), run.end() + MAX_MARK_DISTANCE):
        if closing.end() == len(text) and not final:
            break
        if text[at] == "_" and text[closing.end() : closing.end() + 1].isalnum():
            continue
        inside = parse_inline(text[run.end() : closing.start()], final=True, style=(*style, *added))
        # The mark closes after the last of them, so none of them ends before the mark.
        return _Mark(closing.end(), tuple(replace(piece, end=closing.end()) for piece in inside))
    return _open_end(text, run.end(), final)


def _link(text: str, at: int, final: bool, style: Style) -> _Mark | None:
    found = _LINK.match(text, at)
    if found is not None:
        shown = [StyledPiece(found[1], (*style, "link"), found.end(), found[2])]
        if found[1] != found[2]:
            shown.append(StyledPiece(f" ({found[2]})", (*style, ADDRESS), found.end()))
        return _Mark(found.end(), tuple(shown))
    begun = _LINK_BEGUN.match(text, at)
    is_open = begun is not None and begun.end() == len(text)
    return _Mark(doubt=True) if is_open and not final else None


def _open_end(text: str, start: int, final: bool) -> _Mark | None:
    """Handle a mark without its counterpart, which may still come, within limits."""
    return None if final or len(text) - start > MAX_MARK_DISTANCE else _Mark(doubt=True)


_READERS: dict[str, Callable[[str, int, bool, Style], _Mark | None]] = {
    "\\": _read_escape,
    "`": _code,
    "*": _emphasis,
    "_": _emphasis,
    "~": _emphasis,
    "[": _link,
}


# ── how a line begins ────────────────────────────────────────────────────────────────────────────────────────────────

Kind = Literal["blank", "text", "heading", "item", "quote", "rule", "fence", "row"]


class LineOpening(Struct, frozen=True):
    """The kind of a line. `shown` replaces its first `length` characters; wrapped lines are aligned with the text after
    it."""

    kind: Kind
    length: int = 0
    shown: str = ""
    style: Style = ()
    mark: str = ""
    """The closing marks of a fence."""


_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_RULE_BEGUN = re.compile(r" {0,3}([-*_])(?: *\1)* *")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s+|$)")
_ITEM = re.compile(r"( {0,20})(?:[-*+]|(\d{1,9}[.)])) +(?=\S)")
_ITEM_BEGUN = re.compile(r" {0,20}(?:[-*+]|\d{1,9}[.)]?) *")
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)")
_SPACES = re.compile(r" *")
_PLAIN = LineOpening("text")


def parse_opening(line: str, *, final: bool) -> LineOpening | None:
    """Return how this line begins; None while that is uncertain."""
    spaces = _SPACES.match(line)
    assert spaces is not None
    bare = line[spaces.end() :]
    if not bare:
        return LineOpening("blank", len(line)) if final else None if len(line) < MAX_MARK_DISTANCE else _PLAIN
    if bare[0] not in _KINDS:
        return LineOpening("text", spaces.end(), spaces[0])
    if not final and len(line) > MAX_UNDECIDED:
        return _PLAIN
    return _KINDS[bare[0]](line, final)


def _heading(line: str, final: bool) -> LineOpening | None:
    found = _HEADING.match(line)
    if found is None or (found.end() == len(line) and not final):
        return None if line.strip(" #") == "" and not final else _PLAIN
    return LineOpening("heading", found.end(), "", ("bold", "heading"))


def _quote(line: str, final: bool) -> LineOpening | None:
    found = _QUOTE.match(line)
    if found is None:
        return _PLAIN
    if found.end() == len(line) and not final:
        return None
    return LineOpening("quote", found.end(), "│ " * line[: found.end()].count(">"), ("faint",))


def _item_or_rule(line: str, final: bool) -> LineOpening | None:
    if final and _RULE.fullmatch(line):
        return LineOpening("rule", len(line))
    found = _ITEM.match(line)
    may_be_rule = not final and _RULE_BEGUN.fullmatch(line) is not None
    if found is None or may_be_rule:
        waits = not final and (may_be_rule or _ITEM_BEGUN.fullmatch(line) is not None)
        return None if waits else _PLAIN
    return LineOpening("item", found.end(), f"{found[1]}{found[2] or '•'} ")


def _fence(line: str, final: bool) -> LineOpening | None:
    bare = line.lstrip(" ")
    if not final:
        begun = bare.rstrip("`~")
        return None if not begun or bare.startswith(("```", "~~~")) else _PLAIN
    found = _FENCE.fullmatch(line)
    return _PLAIN if found is None else LineOpening("fence", len(line), found[2].strip(), mark=found[1])


def _row(line: str, final: bool) -> LineOpening | None:
    return LineOpening("row") if final else None


_KINDS: dict[str, Callable[[str, bool], LineOpening | None]] = {
    "#": _heading,
    ">": _quote,
    "|": _row,
    **dict.fromkeys("`~", _fence),
    **dict.fromkeys("-*+_0123456789", _item_or_rule),
}


def table_cells(row: str) -> list[str]:
    """Return the cells of a table row."""
    bare = row.strip().removeprefix("|")
    bare = bare[:-1] if bare.endswith("|") and not bare.endswith("\\|") else bare
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", bare)]


def is_table_divider(row: str) -> bool:
    """Return whether this is the line of dashes below a table's head."""
    return all(re.fullmatch(r":?-+:?", cell) for cell in table_cells(row))
