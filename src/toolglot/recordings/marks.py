"""What stands in recorded JSON where something was redacted, and how far each such hole reaches.

A date, a time or an id is something that changes from run to run (`changing.py`). Where a part of one was redacted it
no longer looks like that, though it does in the text that is asked. So the hole reaches over the whole of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from toolglot.recordings.changing import HALF, steady

NUMBER = "[redacted number]"
"""A string that stands in the place of a number."""
DIGITS = "[redacted digits]"
"""Stands in a string in the place of those."""
HINT = b"[redacte"
"""Stands in every text that something was redacted in."""
MARK = re.compile(
    rb'(?P<number>"\[redacted number\]")|(?P<digits>(?:\[redacted digits\])+)(?!\[redacte)'
    rb"|(?P<text>(?:\[redacted digits\]|\[redacte(?:d(?:\](?:#[0-9]+|\**))?)?)+)"
)
"""Where the length counts it is filled up with stars, or cut. Names of members have a number."""

Kind: TypeAlias = Literal["text", "number", "digits", "changing"]


class Hole(NamedTuple):
    """A part of recorded JSON that stands for something else. One that is `changing` may also be as it stands there."""

    start: int
    end: int
    kind: Kind


_BEFORE, _BEHIND = 96, 256
"""Bytes around a mark among which the rest of a date or an id is looked for."""
_GROUP = rb"(?:[0-9]|\[redacted digits\]){1,20}+"
_PART = rb"(?:[0-9A-Fa-f]|\[redacted(?: digits)?\]){1,20}+"
_CLOCK = rb"#:#(?::#(?:[.,]#)?)?(?:%b)?" % HALF
_LONG = (
    rb"(?<![0-9A-Fa-f])@-@-@-@-@",
    rb"(?<![0-9])@-@-@(?:[T ]#:#(?::#(?:[.,]#)?)?(?: ?(?:Z|[+-]#(?::#)?))?)?",
)
"""Ids and dates: `#` is a group of digits, `@` one of an id. They are long enough to be known by a part of them."""
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
"""The rest of what changes, down to seconds since 1970, which any hole may be that is one of digits."""


def _any_of(*rows: bytes) -> re.Pattern[bytes]:
    return re.compile(b"|".join(rows).replace(b"#", _GROUP).replace(b"@", _PART))


_CHANGING = {"digits": _any_of(*_LONG, *_SHORT), "number": _any_of(*_SHORT[:3]), "text": _any_of(*_LONG)}
"""By the kind of the mark."""
_KEPT = re.compile(rb"\0([0-9]+)\0")


def holes(data: bytes) -> Iterator[Hole]:
    """Those in a text, in order."""
    done = 0
    for mark in MARK.finditer(data):
        if mark.start() >= done:
            hole = _changing(data, mark, done) or Hole(*mark.span(), _kind(mark))
            done = hole.end
            yield hole


def marks(data: bytes) -> Iterator[Hole]:
    """The same, but none of them reaches farther than what was redacted."""
    return (Hole(*mark.span(), _kind(mark)) for mark in MARK.finditer(data))


def _kind(mark: re.Match[bytes]) -> Kind:
    return "number" if mark["number"] else "digits" if mark["digits"] else "text"


def _changing(data: bytes, mark: re.Match[bytes], done: int) -> Hole | None:
    kind = _kind(mark)
    window = max(done, mark.start() - _BEFORE), mark.end() + _BEHIND
    if kind == "text" and data.find(b"-", *window) < 0:
        return None  # quickly, since there may be many
    for found in _CHANGING[kind].finditer(data, *window):
        if found.start() > mark.start():
            break
        if found.end() >= mark.end():
            # Where any text may stand there is no telling how much of it belongs to an id.
            return Hole(*found.span(), "text" if b"[redacted]" in found[0] else "changing")
    return None


def steady_with_holes(data: bytes) -> bytes:
    """JSON without what differs from run to run, but with all of that in which there is a hole."""
    if HINT not in data:
        return steady(data)
    kept, parts, done = list[bytes](), list[bytes](), 0
    for hole in holes(data):
        parts += (data[done : hole.start], b"\0%d\0" % len(kept))
        kept.append(data[hole.start : hole.end])
        done = hole.end
    parts.append(data[done:])
    return _KEPT.sub(lambda number: kept[int(number[1])], steady(b"".join(parts)))
