"""Matches in JSON, cut down to what may be replaced there: of strings what is inside, of numbers the digits.

A pattern may match over commas and braces. What holds a document together stays, so that the rest of it can be read:
the words of the APIs too, and the structure of a document that a string holds, as the arguments of a call are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from toolglot.recordings.replacing import LITERALS, NUMBER, REDACTED, Found, nines
from toolglot.recordings.views import LEVELS, View, unescaped
from toolglot.recordings.vocabulary import COUNTING, LONGEST_COUNT, NAMING, WORDS

_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|\\?\Z)|[^"{}\[\],:\s]++', re.DOTALL)
"""A string, which the end of the text may cut off, or a word outside of strings."""
_REST = re.compile(r'([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|\\?\Z)', re.DOTALL)
"""What comes first where a text begins inside of a string."""
_DOCUMENT = re.compile(r"\ufeff?\s*((?:[{\[\"]|(?:-?[0-9][0-9.eE+-]*+|true|false|null)\s*\Z)?)")
_NAME_ENDS = re.compile(r'"\s*+:')
MOST_NAMES = 10_000
"""Names of members that are known at once."""
_FRAME = re.compile(r"data: ?(?=[{\[\"}\]])")
"""A line of server-sent events with JSON in it; also with a part of it."""


class Place(NamedTuple):
    """Where in a body a text begins."""

    document: bool = False
    """The body is JSON as a whole."""
    line: bool = True
    """At the beginning of a line; else `payload` and `inside` tell of the line that goes on."""
    payload: bool = False
    """The line is JSON."""
    inside: bool = False
    """It goes on inside of a string."""


def begins_document(text: str) -> bool | None:
    """Is a body that begins with this text JSON? None: there is nothing yet but space."""
    begins = _DOCUMENT.match(text)
    assert begins is not None
    return None if begins.end() == len(text) and not begins[1] else bool(begins[1])


class Names:
    """Of members, which stay different from one another where they are redacted: an object has each of them once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.tools: frozenset[str] = frozenset()
        """The names of tools, which stay where a tool is named: a call of another one is of no use to anybody."""

    def are_tool(self, before: str, word: str) -> bool:
        """Is this string, behind that one, the name of a tool?"""
        return word in self.tools and (before in NAMING or before in self.tools)

    def instead(self, name: str) -> str:
        if len(self._known) >= MOST_NAMES and name not in self._known:
            return REDACTED
        number = self._known.setdefault(name, len(self._known) + 1)
        return REDACTED if number == 1 else f"{REDACTED}#{number}"


def kept_in(text: str, found: list[Found], place: Place, names: Names) -> list[Found]:
    """What may be replaced of what was found."""
    if not found:
        return found
    if place.document:
        return list(_structured(View(text), (0, len(text)), place.inside, found, names))
    kept: list[Found] = []
    at = 0
    for start, end, is_json, inside in _lines(text, found, place):
        at = _first(found, at, start)
        touched = _up_to(found, at, end)
        kept += (
            _structured(View(text), (start, end), inside, touched, names) if is_json else _clipped(touched, start, end)
        )
    return kept


def _first(found: list[Found], at: int, place: int) -> int:
    """The number of the first from `at` on that goes beyond this place."""
    while at < len(found) and found[at].end <= place:
        at += 1
    return at


def _up_to(found: list[Found], at: int, place: int) -> list[Found]:
    """Those from `at` on that begin before this place."""
    end = at
    while end < len(found) and found[end].start < place:
        end += 1
    return found[at:end]


def after(text: str, place: Place) -> Place:
    """The place behind a text that is cut inside of a line."""
    begins = text.rfind("\n") + 1
    if begins or place.line:
        frame = None if place.document else _FRAME.match(text, begins)
        place = place._replace(line=False, payload=place.document or frame is not None, inside=False)
        begins = begins if frame is None else frame.end()
    if not place.payload:
        return place
    last = None
    if place.inside:
        last = _REST.match(text, begins)
        begins = begins if last is None else last.end()
    for token in _TOKEN.finditer(text, begins):
        last = token
    inside = last is not None and last[1] is not None and last.end() == len(text) and not _is_closed(last)
    return place._replace(inside=inside)


def _is_closed(string: re.Match[str]) -> bool:
    return string.end() > string.end(1) and string[0][-1] == '"'


def _lines(text: str, found: list[Found], place: Place) -> Iterator[tuple[int, int, bool, bool]]:
    """The lines with something in them: where each begins and ends, whether it is JSON, and begins inside a string."""
    done = 0
    for each in found:
        while max(each.start, done) < each.end:
            start = text.rfind("\n", max(0, done - 1), max(each.start, done)) + 1
            end = text.find("\n", max(each.start, done))
            end = len(text) if end < 0 else end
            if start == 0 and not place.line:
                yield 0, end, place.payload, place.inside
            else:
                frame = _FRAME.match(text, start)
                yield (start if frame is None else frame.end()), end, frame is not None, False
            done = end + 1


def _clipped(found: list[Found], start: int, end: int) -> Iterator[Found]:
    for each in found:
        yield each if each.instead else _part(each, max(start, each.start), min(end, each.end))


def _part(found: Found, start: int, end: int) -> Found:
    return found if (start, end) == found[:2] else Found(start, end, start)


def _structured(
    view: View, bounds: tuple[int, int], inside: bool, found: list[Found], names: Names, depth: int = 0
) -> Iterator[Found]:
    """The `view` is the text itself, or a document inside of it; `found` are places of the text."""
    at = 0
    before = ""
    for start, end, is_string in tokens(view.text, bounds, inside):
        first, last = view.origin(start), view.origin(end)
        at = _first(found, at, first)
        if at == len(found):
            return
        word, name = view.text[start:end], before
        before = word
        touched = _up_to(found, at, last)
        counts = name in COUNTING and len(word) <= LONGEST_COUNT
        if not touched or (depth == 0 and (word in WORDS if is_string else counts)):
            continue
        is_name = is_string and _NAME_ENDS.match(view.text, end) is not None
        if depth == 0 and is_string and not is_name and names.are_tool(name, word):
            continue
        if is_string and (inner := _document_in(view, start, end, depth)) is not None:
            yield from _structured(inner, (0, len(inner.text)), False, touched, names, depth + 1)
        elif is_name:
            yield Found(first, last, first, names.instead(word))
        elif is_string or not (word in LITERALS or NUMBER.fullmatch(word)):
            yield from (_part(each, max(first, each.start), min(last, each.end)) for each in touched)
        elif word not in LITERALS:
            yield from _in_number(word, first, last, touched)


def _in_number(word: str, first: int, last: int, touched: list[Found]) -> Iterator[Found]:
    hidden = nines(word)
    if len(word) != last - first:  # its digits are escaped
        yield Found(first, last, first, hidden, is_number=True)
        return
    for each in touched:
        start, end = max(first, each.start), min(last, each.end)
        yield Found(start, end, start, hidden[start - first : end - first], is_number=True)


def _document_in(view: View, start: int, end: int, depth: int) -> View | None:
    """The document that a string holds, if it does."""
    if depth == LEVELS or view.text[start:end].lstrip()[:1] not in ("{", "["):
        return None
    inner = unescaped(view, start, end)
    try:
        msgspec.json.decode(inner.text.encode("utf-8", "replace"), type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return inner


def tokens(text: str, bounds: tuple[int, int], inside: bool = False) -> Iterator[tuple[int, int, bool]]:
    """The strings of a document, what is inside of their quotes, and its other words: where each begins and ends, and
    whether it is a string."""
    begins, end = bounds
    if inside and (rest := _REST.match(text, begins, end)) is not None:
        yield *rest.span(1), True
        begins = rest.end()
    for token in _TOKEN.finditer(text, begins, end):
        is_string = token[1] is not None
        yield *token.span(1 if is_string else 0), is_string
