"""The placeholders of redacted values in recorded JSON, and the extent of each redacted span.

A date, a time or an id changes between runs (`volatile_text.py`). If part of such a value was redacted, it is no longer
recognizable, although it is in the request to compare. So the span covers the whole value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from toolglot.recordings.volatile_text import HALF_OF_DAY, normalize_volatile

NUMBER_PLACEHOLDER = "[redacted number]"
"""A string in place of a number."""
DIGITS_PLACEHOLDER = "[redacted digits]"
"""Replaces digits in a string."""
PLACEHOLDER_HINT = b"[redacte"
"""Occurs in every text with a redaction."""
PLACEHOLDER = re.compile(
    rb'(?P<number>"\[redacted number\]")|(?P<digits>(?:\[redacted digits\])+)(?!\[redacte)'
    rb"|(?P<text>(?:\[redacted digits\]|\[redacte(?:d(?:\](?:#[0-9]+|\**))?)?)+)"
)
"""Pattern of all placeholders. Where length matters, a placeholder is padded with stars or cut. Member names get a
number."""

SpanKind: TypeAlias = Literal["text", "number", "digits", "changing"]


class RedactedSpan(NamedTuple):
    """A part of recorded JSON that replaces other text. A `changing` span may also be unchanged."""

    start: int
    end: int
    kind: SpanKind


_BEFORE, _BEHIND = 96, 256
"""Bytes around a placeholder that are searched for the rest of a date or an id."""
_GROUP = rb"(?:[0-9]|\[redacted digits\]|(?!)){1,20}+"
_PART = rb"(?:[0-9A-Fa-f]|\[redacted(?: digits)?\]|(?!)){1,20}+"
_CLOCK = rb"#:#(?::#(?:[.,]#)?)?(?:%b)?" % HALF_OF_DAY
_LONG = (
    rb"(?<![0-9A-Fa-f])@-@-@-@-@",
    rb"(?<![0-9])@-@-@(?:[T ]#:#(?::#(?:[.,]#)?)?(?: ?(?:Z|[+-]#(?::#)?))?)?",
)
"""Ids and dates: `#` is a group of digits, `@` one of an id. They are long enough to be recognized by a part."""
_SHORT = (
    rb"Chunk ID: @",
    rb"all time: [0-9.]{0,24}#(?:\.#)?",
    rb"duration_seconds\\?\"?: ?(?:\"\[redacted number\]\"|[0-9.]{0,24}#(?:\.#)?)",
    rb"(?<![0-9/])#/#/#",
    rb"(?<![0-9])#T#(?:\.#)?Z?",
    rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? (?:[A-Z][a-z]{2,8} {1,2}#|# [A-Z][a-z]{2,8})"
    rb"(?:,? #(?!:))?(?: #:#:#(?: [A-Z]{2,5})?(?: #)?)?",
    rb"(?<![0-9:])" + _CLOCK,
    rb"(?<![0-9])#(?:\.#)?",
)
"""The other volatile values, including Unix time, which any redacted digits may be."""


def _compile_any(*rows: bytes) -> re.Pattern[bytes]:
    return re.compile(b"|".join(rows).replace(b"#", _GROUP).replace(b"@", _PART))


_VOLATILE = {"digits": _compile_any(*_LONG, *_SHORT), "number": _compile_any(*_SHORT[:3]), "text": _compile_any(*_LONG)}
"""Patterns of volatile values, by kind of placeholder."""
_UNCHANGED = re.compile(rb"\0([0-9]+)\0")


def redacted_spans(data: bytes) -> Iterator[RedactedSpan]:
    """Yield the redacted spans of a text, in order."""
    done = 0
    for mark in PLACEHOLDER.finditer(data):
        if mark.start() >= done:
            hole = _volatile_span(data, mark, done) or RedactedSpan(*mark.span(), _placeholder_kind(mark))
            done = hole.end
            yield hole


def placeholders(data: bytes) -> Iterator[RedactedSpan]:
    """Find the placeholders of redacted parts only."""
    return (RedactedSpan(*mark.span(), _placeholder_kind(mark)) for mark in PLACEHOLDER.finditer(data))


def _placeholder_kind(mark: re.Match[bytes]) -> SpanKind:
    return "number" if mark["number"] else "digits" if mark["digits"] else "text"


def _volatile_span(data: bytes, mark: re.Match[bytes], done: int) -> RedactedSpan | None:
    kind = _placeholder_kind(mark)
    window = max(done, mark.start() - _BEFORE), mark.end() + _BEHIND
    if kind == "text" and data.find(b"-", *window) < 0:
        return None  # fast, because there may be many
    for found in _VOLATILE[kind].finditer(data, *window):
        if found.start() > mark.start():
            break
        if found.end() >= mark.end():
            # If any text is allowed, the extent of an id is unknown.
            return RedactedSpan(*found.span(), "text" if b"[redacted]" in found[0] else "changing")
    return None


def normalize_volatile_spans(data: bytes) -> bytes:
    """Replace everything that differs between runs, including values with a redacted part."""
    if PLACEHOLDER_HINT not in data:
        return normalize_volatile(data)
    kept, parts, done = list[bytes](), list[bytes](), 0
    for hole in redacted_spans(data):
        parts += (data[done : hole.start], b"\0%d\0" % len(kept))
        kept.append(data[hole.start : hole.end])
        done = hole.end
    parts.append(data[done:])
    return _UNCHANGED.sub(lambda number: kept[int(number[1])], normalize_volatile(b"".join(parts)))
