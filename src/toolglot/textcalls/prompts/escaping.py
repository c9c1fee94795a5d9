"""Texts of users and tools that contain a format's marks, so that they can forge neither a call nor a result.

Every mark is broken by a middle dot behind its first character: `<tool_call>` becomes `<·tool_call>`, `[TOOL_CALLS]`
becomes `[·TOOL_CALLS]`. The dot is visible to the model and to people, stands in no mark of any format, and is one
character, the same for all marks. It is not an entity, because a format's values are not XML: nobody would turn it
back. It is not a blank or a backslash, because lenient readers take `< tool_call>` and `<\\tool_call>` for the tag.
And it is not a character without width, because what looks like a mark would still look like one.

Since something is only ever put in, and at every place where a mark begins, no mark is left afterwards: also not one
that overlaps another.

A mark that is but a word (`Observation:`) counts only at the beginning of a line, because people use the word too.

A mark that is no sure sign (bare JSON, a code fence, a tag with a tool's name) counts only with the name of a declared
tool. Texts are full of such signs, so there it is the name that is broken, where it stands as such a call has it. They
need the `tools`; without any, no such call can be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from toolglot.textcalls.formats import find_format
from toolglot.textcalls.grammar import Call, Format
from toolglot.textcalls.prompts.records import Prompt

DOT: Final = "·"


def without_marks(prompt: Prompt, text: str, tool_names: Sequence[str]) -> str:
    """The text with every mark broken."""
    return _pattern(prompt, tuple(tool_names)).sub(_broken, text)


def _broken(found: re.Match[str]) -> str:
    return found.group() + DOT


@lru_cache(maxsize=256)
def _pattern(prompt: Prompt, tool_names: tuple[str, ...]) -> re.Pattern[str]:
    """Matches up to the first character of every mark: looking ahead, so that marks may overlap."""
    text_format = find_format(prompt.name)
    marks = marks_of_prompt(prompt)
    words = [re.escape(mark) for mark in marks if is_word(mark)]
    shapes = [re.escape(mark) for mark in marks if not is_word(mark)]
    for call in text_format.calls:
        shapes += _weak_shapes(call, tool_names) if call.weak else _word_shapes(call)
    shapes += _first_lines(text_format, tool_names)
    anywhere = f"(?={'|'.join(dict.fromkeys(shapes)) or '(?!)'})"
    in_line = rf"^[ \t]*(?={'|'.join(words)})|" if words else ""
    return re.compile(rf"(?:{in_line}{anywhere})[\s\S]", re.MULTILINE | (re.IGNORECASE if prompt.any_case else 0))


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


def _word_shapes(call: Call) -> Iterable[str]:
    """Openers that are ordinary words are marks together with what follows them."""
    for opener in call.header.openers:
        if _is_plain(opener):
            yield rf"{re.escape(opener)}\s*[{re.escape(call.first)}]"


def _weak_shapes(call: Call, tool_names: Sequence[str]) -> Iterable[str]:
    """How the name of a declared tool stands in a call that nothing else gives away."""
    for name in tool_names:
        letters = "".join(_letter(letter) for letter in name)
        if call.tool_tags:
            yield rf"</?\s*{re.escape(name)}\s*/?>"
        elif call.body == "envelope":
            yield rf"""["'“”]\s*{letters}\s*["'“”]"""
        elif call.body == "python":
            yield rf"\[\s*{re.escape(name)}\s*\("
        else:
            yield from (rf"{re.escape(opener)}\s*{re.escape(name)}" for opener in call.header.openers)


def _first_lines(text_format: Format, tool_names: Sequence[str]) -> Iterable[str]:
    """Where an answer may begin with a header that nothing opens, the name of a tool alone on its first line is one."""
    if text_format.messages is not None and "" in text_format.messages.at_start:
        yield from (rf"\A\s*{re.escape(name)}\s" for name in tool_names)


def _letter(letter: str) -> str:
    """A letter of a JSON string, also as an escape."""
    return rf"(?:{re.escape(letter)}|\\u(?i:{ord(letter):04x}))" if ord(letter) < 0x10000 else re.escape(letter)
