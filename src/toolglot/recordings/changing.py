"""Parts of texts that are new in each run of an agent: ids, dates, times, how long something took."""

from __future__ import annotations

import re

from msgspec import Struct


class Changing(Struct, frozen=True):
    """A part of texts that differs from run to run, as it stands in JSON. What `pattern` finds begins with a character
    that is rare, so that the search is quick; so many bytes `before` it belong to it."""

    pattern: re.Pattern[bytes]
    before: int = 0
    instead: bytes = b"(id)"


HALF = rb"(?: |\xe2\x80\xaf)?[AaPp]\.?[Mm]\b"
"""Of the day. JavaScript writes a narrow space before it."""
_CLOCK = rb"[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?(?:%b|(?![0-9:]))|%b)" % (HALF, HALF)
"""The rest of a time of day, behind the hour."""

CHANGING = (
    # The first line of Claude Code's instructions has a checksum in it.
    Changing(re.compile(rb"-billing-header:(?:[^\"\\]|\\[^n])*")),
    Changing(re.compile(rb"-(?<=[0-9A-Fa-f]{8}-)(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"), 8),
    # What Codex tells of a command that it has run.
    Changing(re.compile(rb"Chunk ID: [0-9a-f]{1,40}")),
    Changing(re.compile(rb"all time: [0-9.]{1,24}"), 0, b"(seconds)"),
    Changing(re.compile(rb"duration_seconds\\?\"?: ?[0-9.]{1,24}"), 0, b"(seconds)"),
    # Dates, and times of day behind them: 2026-11-15T10:11:12.5Z, 2026/11/15, 11/15/2026, 20261115T101112Z.
    Changing(
        re.compile(rb"-(?<=[0-9]{4}-)\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?"),
        4,
        b"(time)",
    ),
    Changing(re.compile(rb"/(?<=[^0-9/][0-9]{4}/)[01]\d/[0-3]\d(?![0-9/])"), 4, b"(time)"),
    Changing(re.compile(rb"/(?<=[^0-9/][0-9]{2}/)[0-3]?\d/(?:19|20)\d\d(?![0-9/])"), 2, b"(time)"),
    Changing(re.compile(rb"/(?<=[^0-9/][0-9]/)[0-3]?\d/(?:19|20)\d\d(?![0-9/])"), 1, b"(time)"),
    Changing(re.compile(rb"T(?<=(?:19|20)[0-9]{6}T)[0-2]\d[0-5]\d[0-5]\d(?:\.\d{1,9})?Z?(?![0-9])"), 8, b"(time)"),
    Changing(
        re.compile(
            rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? (?:[A-Z][a-z]{2,8} {1,2}\d{1,2}|\d{1,2} [A-Z][a-z]{2,8})"
            rb"(?:,? \d{4})?(?: \d\d:\d\d:\d\d(?: [A-Z]{2,5})?(?: \d{4})?)?"
        ),
        0,
        b"(time)",
    ),
    # Times of day alone: 10:11:12, 9:05:01 PM, 9:05 PM. Two numbers with a colon may be anything.
    Changing(re.compile(rb":(?<=[^0-9:][0-2][0-9]:)" + _CLOCK), 2, b"(time)"),
    Changing(re.compile(rb":(?<=[^0-9:][0-9]:)" + _CLOCK), 1, b"(time)"),
    # Seconds since 1970, and thousandths, millionths and so on of them, from 2017 to 2033.
    Changing(
        re.compile(rb"1(?:(?<=[^0-9A-Za-z_.-]1)|(?<=\\[nrt]1))[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d{1,9})?(?![0-9A-Za-z_-])"),
        0,
        b"(time)",
    ),
)


def steady(data: bytes) -> bytes:
    """JSON without what differs from run to run."""
    for changing in CHANGING:
        data = without(changing, data)
    return data


def without(changing: Changing, data: bytes) -> bytes:
    """JSON with something else in the place of this part."""
    parts, done = list[bytes](), 0
    for found in changing.pattern.finditer(data):
        parts += [data[done : max(found.start() - changing.before, done)], changing.instead]
        done = found.end()
    return b"".join([*parts, data[done:]]) if parts else data
