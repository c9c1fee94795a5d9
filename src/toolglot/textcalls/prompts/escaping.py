"""Texts of users and tools that contain a format's marks, so that they can forge neither a call nor a result.

Every mark is broken by a middle dot behind its first character: `<tool_call>` becomes `<·tool_call>`, `[TOOL_CALLS]`
becomes `[·TOOL_CALLS]`. The dot is visible to the model and to people, stands in no mark of any format, and is one
character, the same for all marks. It is not an entity, because a format's values are not XML: nobody would turn it
back. It is not a blank or a backslash, because lenient readers take `< tool_call>` and `<\\tool_call>` for the tag.
And it is not a character without width, because what looks like a mark would still look like one.

Since something is only ever put in, and at every place where a mark begins, no mark is left afterwards: also not one
that overlaps another. What looks broken already gets one dot more, so that nothing but our own dots is taken out again:
a model that copies such a text into its answer means the text, and `Escapes` remembers what has to be put back there.

A mark that is but a word (`Observation:`) counts only at the beginning of a line, because people use the word too.

A mark that is no sure sign (bare JSON, a code fence, a tag with a tool's name) counts only with the name of a declared
tool. Texts are full of such signs, so there it is the name that is broken, where it stands as such a call has it. They
need the `tools`; without any, no such call can be.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from toolglot.textcalls.escapes import DOT, Escapes
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.grammar import Call, Format
from toolglot.textcalls.prompts.records import Prompt

QUOTES: Final = "\"'“”"
"""Marks around a name in JSON, or in what lenient readers take for JSON."""


_HIDDEN: Final = r"[\w.\-/:]{0,128}\\u00(?i:2[d-f]|3[0-9a]|[46][1-9a-f]|[57][0-9a]|5f)"
"""A word with a letter of a plain name written as an escape, which only who has something to hide does."""

Shape: TypeAlias = tuple[str, str]
"""How a mark begins, as one of some characters, and a regular expression for its rest."""


def without_marks(
    prompt: Prompt,
    text: str,
    tool_names: Sequence[str],
    escapes: Escapes | None = None,
    *,
    again: bool = False,
    inside: bool = False,
) -> str:
    """The text with every mark broken; `escapes` learns which. `again`: what is broken in it was broken by us.
    `inside`: it will stand inside another text, so that no text begins with it."""
    dots: list[tuple[int, int]] = []
    names = tuple(tool_names) if needs_names(find_format(prompt.name)) else ()
    for pattern in _patterns(prompt, names, inside):
        text, dots = _broken(pattern, text, dots, again=again)
    if escapes is not None:
        for dot, end in dots:
            escapes.add(text[dot - 1], text[dot:end].lstrip(DOT))
    return text


def _broken(
    pattern: re.Pattern[str], text: str, dots: list[tuple[int, int]], *, again: bool
) -> tuple[str, list[tuple[int, int]]]:
    """The text with a dot in all that the pattern finds; and where each dot stands, and where its mark ends."""
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
    """Are there calls that only the name of a declared tool gives away?"""
    return any(call.weak for call in text_format.calls)


@lru_cache(maxsize=256)
def _patterns(prompt: Prompt, tool_names: tuple[str, ...], inside: bool) -> tuple[re.Pattern[str], ...]:
    """Patterns for what stands anywhere, at the beginning of a line, and at the beginning of the text.

    They match up to the first character of a mark and look ahead for the rest, so that marks may overlap. What is
    looked for anywhere begins with one of a few characters, which is what makes the search fast.
    """
    text_format = find_format(prompt.name)
    marks = marks_of_prompt(prompt)
    shapes = [_literal(mark) for mark in marks if not is_word(mark)]
    for call in text_format.calls:
        shapes += _weak_shapes(call, tool_names) if call.weak else _word_shapes(call)
    words = [_literal(mark) for mark in marks if is_word(mark)]
    starts = [] if inside else _starts(text_format, tool_names)
    flags = re.IGNORECASE if prompt.any_case else re.NOFLAG
    return tuple(
        re.compile(f"{before}(?:{_choices(found)})", flags)
        for before, found in (("", shapes), (r"(?m:^)[ \t]*", words), (r"\A\s*", starts))
        if found
    )


def _choices(shapes: Iterable[Shape]) -> str:
    by_first: dict[str, list[str]] = {}
    for first, rest in dict.fromkeys(shapes):
        by_first.setdefault(first, []).append(rest)
    return "|".join(f"[{re.escape(first)}](?={DOT}*({'|'.join(rests)}))" for first, rests in by_first.items())


def _literal(mark: str) -> Shape:
    return mark[0], re.escape(mark[1:])


def is_word(mark: str) -> bool:
    """A mark without any sign that texts do not have all the time: it counts only where a line begins with it."""
    return mark[0].isalnum() or mark[0] == "#"


def marks_of_prompt(prompt: Prompt) -> list[str]:
    """All that is a sure sign of a call, a result or a turn of the conversation, the longest first."""
    marks = {*_marks(find_format(prompt.name)), *prompt.results.marks, *prompt.tokens}
    return sorted((mark for mark in marks if len(mark) > 1), key=lambda mark: (-len(mark), mark))


def _marks(text_format: Format) -> Iterable[str]:
    """The marks that are a sure sign of something."""
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


def _word_shapes(call: Call) -> Iterable[Shape]:
    """Openers that are ordinary words are marks together with what follows them."""
    for opener in call.header.openers:
        if _is_plain(opener):
            yield opener[0], rf"{re.escape(opener[1:])}\s*[{re.escape(call.first)}]"


def _weak_shapes(call: Call, tool_names: Sequence[str]) -> Iterable[Shape]:
    """How the name of a declared tool stands in a call that nothing else gives away."""
    if not tool_names:
        return
    names = f"(?:{'|'.join(map(re.escape, tool_names))})"
    if call.tool_tags:
        yield "<", rf"/?\s*{names}\s*/?>"
    elif call.body == "envelope":
        names = "|".join((names, *("".join(map(_letter, name)) for name in tool_names if not name.isascii())))
        yield QUOTES, rf"\s*(?:(?:{names})\s*[{QUOTES}]|{_HIDDEN})"
    elif call.body == "python":
        yield "[", rf"\s*{names}\s*\("
    else:
        yield from ((opener[0], rf"{re.escape(opener[1:])}\s*{names}") for opener in call.header.openers)


def _starts(text_format: Format, tool_names: Sequence[str]) -> list[Shape]:
    """Where an answer may begin with a header that nothing opens, the name of a tool alone on its first line is one."""
    if text_format.messages is None or "" not in text_format.messages.at_start:
        return []
    return [(name[0], rf"{re.escape(name[1:])}\s") for name in tool_names if name]


def _letter(letter: str) -> str:
    """A letter of a JSON string, also as an escape."""
    return rf"(?:{re.escape(letter)}|\\u(?i:{ord(letter):04x}))" if ord(letter) < 0x10000 else re.escape(letter)
