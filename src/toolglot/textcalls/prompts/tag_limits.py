"""Values that a format with tags cannot express: the reader would end them too early, or trim them.

This uses the reader's own rules, so that both sides cannot diverge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from toolglot.textcalls.formats import find_format
from toolglot.textcalls.grammar import CallSyntax, Parameter, Spacing
from toolglot.textcalls.headers import HeaderMatch, header_at
from toolglot.textcalls.marks import MarkSet, mark_set
from toolglot.textcalls.tagged_body import CDATA, MAX_SPACE
from toolglot.textcalls.vocabulary import vocabulary_of

_SPACE = " \t\r\n"


def find_misreads(format_name: str, tool: str, key: str, value: Any, written: str) -> Iterator[str]:
    """Yield why a parameter, as written, would be read as something else."""
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
    """Return what in the value ends it; empty if only its closing tag does."""
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
