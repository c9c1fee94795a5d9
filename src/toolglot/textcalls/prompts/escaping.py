"""Escape a format's marks in texts of users and tools, so that they can forge neither a call nor a result.

Every mark is broken by a middle dot after its first character: `<tool_call>` becomes `<·tool_call>`, `[TOOL_CALLS]`
becomes `[·TOOL_CALLS]`. The dot is visible to the model and to people, occurs in no mark of any format, and is one
character, the same for all marks. It is not an entity, because a format's values are not XML: nothing would turn it
back. It is not a blank or a backslash, because lenient readers take `< tool_call>` and `<\\tool_call>` for the tag. And
it is not a zero-width character, because the text would still look like a mark.

Because text is only inserted, and at every place where a mark begins, no mark is left afterwards, not even one that
overlaps another. A mark that is already broken gets one more dot, so that only our own dots are removed again: a model
that copies such a text into its answer means the original text, and `EscapeRules` records the marks to restore there.

A mark that is an ordinary word (`Observation:`) counts only at the beginning of a line, because people use the word,
too.

A mark that is not a sure sign (bare JSON, a code fence, a tag with a tool's name) counts only with the name of a
declared tool. Texts are full of such signs, so the name is broken instead, where it is placed as in such a call. This
needs the `tools`; without any, there can be no such call.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from toolglot.textcalls.formats import find_format
from toolglot.textcalls.grammar import CallSyntax, Format, Parameter, Spacing
from toolglot.textcalls.headers import HeaderMatch, header_at
from toolglot.textcalls.marks import MarkSet, mark_set
from toolglot.textcalls.prompts.records import Prompt
from toolglot.textcalls.tagged_body import CDATA, MAX_SPACE
from toolglot.textcalls.unescape import DOT, Escapes
from toolglot.textcalls.vocabulary import vocabulary_of

_SPACE = " \t\r\n"


def find_misreads(format_name: str, tool: str, key: str, value: Any, written: str) -> Iterator[str]:
    """Yield the reasons why a written parameter would be misread."""
    text_format = find_format(format_name)
    call = next((call for call in text_format.calls if call.body == "tagged"), None)
    if call is None or call.parameter is None:
        return
    header = header_at(call.parameter.header, written, 0)
    if not isinstance(header, HeaderMatch) or header.groups.get("key") != key:
        yield "has a name that cannot be written there"
        return
    if call.parameter.json_values:
        return
    followers = vocabulary_of(text_format, (tool,)).followers
    early = _early_end(call, call.parameter, tool, key, written, header.end, mark_set(followers))
    if early:
        yield f"contains {early!r}, which ends it there"
    if isinstance(value, str):
        yield from _SPACING[_spacing(call.parameter.spacing, key)](value)


def _early_end(
    call: CallSyntax, parameter: Parameter, tool: str, key: str, written: str, start: int, followers: MarkSet
) -> str:
    """Return the text in the value that would end it early; empty if there is none."""
    wrapped = "]]>" if parameter.cdata and written.startswith(CDATA, start) else ""
    closers = tuple(wrapped + closer.replace("{key}", key) for closer in parameter.closers)
    call_ends = tuple(closer.replace("{name}", tool) for closer in call.closers)
    implied = tuple(f"\n{opener}" for opener in parameter.header.openers) if parameter.implied else ()
    ends, behind = mark_set((*closers, *implied)), mark_set(call_ends)
    end = max(written.rfind(closer) for closer in closers)
    text = written + call_ends[0]
    at = start
    while (found := ends.search(text, at)) is not None and found.start() < end:
        if found.group() in implied:
            counts = isinstance(header_at(parameter.header, text, found.start() + 1), HeaderMatch)
        else:
            after = _skip_space(text, found.end())
            counts = (
                after - found.end() >= MAX_SPACE
                or bool(behind.match(text, after) or followers.match(text, after))
                or isinstance(header_at(parameter.header, text, after), HeaderMatch)
            )
        if counts:
            return found.group()
        at = found.start() + 1
    return ""


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _spacing(spacing: Spacing, key: str) -> Spacing:
    if spacing != "cline":
        return spacing
    return "lines" if key == "content" else "trim"


def _line_break_problems(value: str) -> list[str]:
    return ["ends with half a line break, which is lost there"] if value.endswith("\r") else []


def _space_problems(value: str) -> list[str]:
    return ["begins or ends with white space, which is lost there"] if value != value.strip(_SPACE) else []


_SPACING: dict[Spacing, Callable[[str], list[str]]] = {
    "exact": lambda value: [],
    "lines": _line_break_problems,
    "trim": _space_problems,
}

NAME_QUOTES: Final = "\"'“”"
"""Quotes around a name in JSON, or in text that lenient readers accept as JSON."""


_ESCAPED_NAME: Final = r"[\w.\-/:]{0,128}\\u00(?i:2[d-f]|3[0-9a]|[46][1-9a-f]|[57][0-9a]|5f)"
"""A word with a letter written as an escape, which only an attacker does."""

MarkShape: TypeAlias = tuple[str, str]
"""The possible first characters of a mark, and a regular expression for its rest."""


def break_marks(
    prompt: Prompt,
    text: str,
    tool_names: Sequence[str],
    escapes: Escapes | None = None,
    *,
    again: bool = False,
    inside: bool = False,
) -> str:
    """Break every mark in the text; `escapes` records them. `again`: toolglot has already broken the broken marks in
    the text. `inside`: it will be inside another text, so nothing begins with it.
    """
    dots: list[tuple[int, int]] = []
    names = tuple(tool_names) if needs_names(find_format(prompt.name)) else ()
    for pattern in _patterns(prompt, names, inside):
        text, dots = _break_matches(pattern, text, dots, again=again)
    if escapes is not None:
        for dot, end in dots:
            escapes.add(text[dot - 1], text[dot:end].lstrip(DOT))
    return text


def _break_matches(
    pattern: re.Pattern[str], text: str, dots: list[tuple[int, int]], *, again: bool
) -> tuple[str, list[tuple[int, int]]]:
    """Insert a dot into every match of the pattern. Returns the text, the position of each dot, and where its mark
    ends."""
    ours = {dot for dot, _ in dots}  # a mark of two kinds gets one dot
    found = [
        (place, one.end(one.lastindex or 0))
        for one in pattern.finditer(text)
        if (place := one.end()) not in ours and not (again and text.startswith(DOT, place))
    ]
    if not found:
        return text, dots
    places = [place for place, _ in found]
    parts = [text[start:end] for start, end in zip((0, *places), (*places, len(text)), strict=True)]
    moved = [(dot + bisect_right(places, dot), end + bisect_left(places, end)) for dot, end in dots]
    new = [(place + before, end + bisect_left(places, end)) for before, (place, end) in enumerate(found)]
    return DOT.join(parts), [*moved, *new]


def needs_names(text_format: Format) -> bool:
    """Return whether there are calls that only the name of a declared tool identifies."""
    return any(call.weak for call in text_format.calls)


@lru_cache(maxsize=256)
def _patterns(prompt: Prompt, tool_names: tuple[str, ...], inside: bool) -> tuple[re.Pattern[str], ...]:
    """Return patterns for marks anywhere, at the beginning of a line, and at the beginning of the text.

    They match up to the first character of a mark and look ahead for the rest, so that marks may overlap. A mark
    anywhere begins with one of a few characters, which makes the search fast.
    """
    text_format = find_format(prompt.name)
    marks = sure_marks(prompt)
    shapes = [_literal_shape(mark) for mark in marks if not is_word(mark)]
    for call in text_format.calls:
        shapes += _weak_shapes(call, tool_names) if call.weak else _word_shapes(call)
    words = [_literal_shape(mark) for mark in marks if is_word(mark)]
    starts = [] if inside else _start_shapes(text_format, tool_names)
    flags = re.IGNORECASE if prompt.any_case else re.NOFLAG
    return tuple(
        re.compile(f"{before}(?:{_alternatives(found)})", flags)
        for before, found in (("", shapes), (r"(?m:^)[ \t]*", words), (r"\A\s*", starts))
        if found
    )


def _alternatives(shapes: Iterable[MarkShape]) -> str:
    by_first: dict[str, list[str]] = {}
    for first, rest in dict.fromkeys(shapes):
        by_first.setdefault(first, []).append(rest)
    return "|".join(f"[{re.escape(first)}](?={DOT}*({'|'.join(rests)}))" for first, rests in by_first.items())


def _literal_shape(mark: str) -> MarkShape:
    return mark[0], re.escape(mark[1:])


def is_word(mark: str) -> bool:
    """Return whether a mark is an ordinary word: it counts only at the beginning of a line."""
    return mark[0].isalnum() or mark[0] == "#"


def sure_marks(prompt: Prompt) -> list[str]:
    """Return all sure signs of a call, a result or a turn of the conversation, the longest first."""
    marks = {*_format_marks(find_format(prompt.name)), *prompt.results.marks, *prompt.tokens}
    return sorted((mark for mark in marks if len(mark) > 1), key=lambda mark: (-len(mark), mark))


def _format_marks(text_format: Format) -> Iterable[str]:
    """Yield the marks that are sure signs."""
    for call in text_format.calls:
        if not call.weak:
            yield from (opener for opener in call.header.openers if not _is_plain(opener))
        yield from (closer for closer in call.closers if "{" not in closer and len(closer.strip("`\n ")) > 1)
        if call.parameter is not None and not call.weak and not call.parameter.declared_only:
            yield from call.parameter.header.openers
            yield from (closer for closer in call.parameter.closers if "{" not in closer)
    for pair in (*text_format.sections, *text_format.thinking):
        yield from pair
    yield from text_format.dropped
    if text_format.messages is not None:
        yield from (*text_format.messages.openers, *text_format.messages.ends, *text_format.messages.closers)


def _is_plain(opener: str) -> bool:
    return opener.strip().isalnum()


def _word_shapes(call: CallSyntax) -> Iterable[MarkShape]:
    """Openers that are ordinary words are marks only together with what follows them."""
    for opener in call.header.openers:
        if _is_plain(opener):
            yield opener[0], rf"{re.escape(opener[1:])}\s*[{re.escape(call.first)}]"


def _weak_shapes(call: CallSyntax, tool_names: Sequence[str]) -> Iterable[MarkShape]:
    """Yield the places of a declared tool's name in a call that nothing else identifies."""
    if not tool_names:
        return
    names = f"(?:{'|'.join(map(re.escape, tool_names))})"
    if call.tool_tags:
        yield "<", rf"/?\s*{names}\s*/?>"
    elif call.body == "envelope":
        names = "|".join((names, *("".join(map(_letter, name)) for name in tool_names if not name.isascii())))
        yield NAME_QUOTES, rf"\s*(?:(?:{names})\s*[{NAME_QUOTES}]|{_ESCAPED_NAME})"
    elif call.body == "python":
        yield "[", rf"\s*{names}\s*\("
    else:
        yield from ((opener[0], rf"{re.escape(opener[1:])}\s*{names}") for opener in call.header.openers)


def _start_shapes(text_format: Format, tool_names: Sequence[str]) -> list[MarkShape]:
    """Return the marks at the start of an answer. If a header needs no opener there, a tool's name alone on the first
    line is one."""
    if text_format.messages is None or "" not in text_format.messages.at_start:
        return []
    return [(name[0], rf"{re.escape(name[1:])}\s") for name in tool_names if name]


def _letter(letter: str) -> str:
    """Return a pattern for a letter of a JSON string, also as an escape."""
    return rf"(?:{re.escape(letter)}|\\u(?i:{ord(letter):04x}))" if ord(letter) < 0x10000 else re.escape(letter)
