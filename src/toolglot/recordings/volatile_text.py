"""Parts of texts that change in each run of an agent: ids, dates, times, durations."""

from __future__ import annotations

import re

from msgspec import Struct


class VolatilePattern(Struct, frozen=True):
    """A part of texts that differs between runs, as written in JSON. A match of `pattern` begins with a rare character,
    so that the search is fast; `before` is the number of bytes before it that belong to it."""

    pattern: re.Pattern[bytes]
    before: int = 0
    instead: bytes = b"(id)"


HALF_OF_DAY = rb"(?: |\xe2\x80\xaf)?[AaPp]\.?[Mm]\b"
"""AM or PM. JavaScript writes a narrow space before it."""
_CLOCK = rb"[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?(?:%b|(?![0-9:]))|%b)" % (HALF_OF_DAY, HALF_OF_DAY)
"""The rest of a time of day, after the hour."""

VOLATILE_PATTERNS = (
    # The first line of Claude Code's instructions contains a checksum.
    VolatilePattern(re.compile(rb"-billing-header:(?:[^\"\\]|\\[^n])*")),
    VolatilePattern(re.compile(rb"-(?<=[0-9A-Fa-f]{8}-)(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"), 8),
    # Codex's report on a command that it has run.
    VolatilePattern(re.compile(rb"Chunk ID: [0-9a-f]{1,40}")),
    VolatilePattern(re.compile(rb"all time: [0-9.]{1,24}"), 0, b"(seconds)"),
    VolatilePattern(re.compile(rb"duration_seconds\\?\"?: ?[0-9.]{1,24}"), 0, b"(seconds)"),
    # Dates, and times of day after them: 2026-11-15T10:11:12.5Z, 2026/11/15, 11/15/2026, 20261115T101112Z.
    VolatilePattern(
        re.compile(rb"-(?<=[0-9]{4}-)\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?"),
        4,
        b"(time)",
    ),
    VolatilePattern(re.compile(rb"/(?<=[^0-9/][0-9]{4}/)[01]\d/[0-3]\d(?![0-9/])"), 4, b"(time)"),
    VolatilePattern(re.compile(rb"/(?<=[^0-9/][0-9]{2}/)[0-3]?\d/(?:19|20)\d\d(?![0-9/])"), 2, b"(time)"),
    VolatilePattern(re.compile(rb"/(?<=[^0-9/][0-9]/)[0-3]?\d/(?:19|20)\d\d(?![0-9/])"), 1, b"(time)"),
    VolatilePattern(
        re.compile(rb"T(?<=(?:19|20)[0-9]{6}T)[0-2]\d[0-5]\d[0-5]\d(?:\.\d{1,9})?Z?(?![0-9])"), 8, b"(time)"
    ),
    VolatilePattern(
        re.compile(
            rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? (?:[A-Z][a-z]{2,8} {1,2}\d{1,2}|\d{1,2} [A-Z][a-z]{2,8})"
            rb"(?:,? \d{4})?(?: \d\d:\d\d:\d\d(?: [A-Z]{2,5})?(?: \d{4})?)?"
        ),
        0,
        b"(time)",
    ),
    # Times of day alone: 10:11:12, 9:05:01 PM, 9:05 PM. Two numbers with a colon are too ambiguous.
    VolatilePattern(re.compile(rb":(?<=[^0-9:][0-2][0-9]:)" + _CLOCK), 2, b"(time)"),
    VolatilePattern(re.compile(rb":(?<=[^0-9:][0-9]:)" + _CLOCK), 1, b"(time)"),
    # Unix time in seconds, milliseconds, microseconds and so on, from 2017 to 2033.
    VolatilePattern(
        re.compile(rb"1(?:(?<=[^0-9A-Za-z_.-]1)|(?<=\\[nrt]1))[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d{1,9})?(?![0-9A-Za-z_-])"),
        0,
        b"(time)",
    ),
)


def normalize_volatile(data: bytes) -> bytes:
    """Replace everything that differs between runs."""
    for changing in VOLATILE_PATTERNS:
        data = replace_volatile(changing, data)
    return data


def replace_volatile(changing: VolatilePattern, data: bytes) -> bytes:
    """Replace this part."""
    parts, done = list[bytes](), 0
    for found in changing.pattern.finditer(data):
        parts += [data[done : max(found.start() - changing.before, done)], changing.instead]
        done = found.end()
    return b"".join([*parts, data[done:]]) if parts else data
