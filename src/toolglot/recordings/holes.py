"""Recorded JSON that has holes, where something was redacted: does it fit a text that has the real value there?

A hole stands for any text inside of one string: it never goes over a quote, so only what has the same structure fits.
Or it stands for a number, or for the digits of one in a string. Where a part of the text behind a hole may stand in
several places the first one is right: a later one would make the hole larger, and the next no safer. So one look at
each side is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from toolglot.recordings.format import UpstreamRequest
from toolglot.recordings.structure import tokens
from toolglot.wire import json

NUMBER = "[redacted number]"
"""A string that stands in the place of a number."""
DIGITS = "[redacted digits]"
"""Stands in a string in the place of those."""
HOLE = re.compile(
    rb'(?P<number>"\[redacted number\]")|(?P<digits>(?:\[redacted digits\])+)(?!\[redacte)'
    rb"|(?P<text>(?:\[redacted digits\]|\[redacte(?:d(?:\](?:#[0-9]+|\**))?)?)+)"
)
"""Where the length counts it is filled up with stars, or cut. Names of members have a number."""
LONGEST = 64 * 1024
"""Bytes that one hole may stand for."""
_FILLED: dict[str | None, re.Pattern[bytes]] = {
    "text": re.compile(rb"(?:[^\"\\]|\\.)+", re.DOTALL),
    "number": re.compile(rb'-?[0-9][0-9.eE+-]*|"\[redacted number\]"'),
    "digits": re.compile(rb"[0-9eE+.,:/ \[\]{}-]+|\[redacted digits\]"),
}
"""What may stand in the place of each kind of hole."""
_NINES = re.compile(r"[90.,:eE+\s\[\]{}-]+")
"""What a number becomes, several with what stands between them, or a part: nines, and in its exponent zeros."""


def with_holes(text: str, numbers: Sequence[int]) -> str:
    """A recorded document with holes in the place of numbers that have become nines. `numbers` tells where: where each
    begins, and its length, one after the other."""
    parts, done = list[str](), 0
    for start, end, hole in _holes(text, numbers) if numbers else ():
        if start >= done:
            parts += (text[done:start], hole)
            done = end
    return "".join((*parts, text[done:]))


def recorded(request: UpstreamRequest) -> bytes:
    """The body of a recorded request, with its holes."""
    if request.text is None or not request.numbers:
        return request.data
    return with_holes(request.text, request.numbers).encode("utf-8", "surrogatepass")


def _holes(text: str, numbers: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    told = iter(sorted(zip(numbers[::2], numbers[1::2], strict=False)))
    begins, length = next(told, (len(text), 0))
    for start, end, is_string in tokens(text, (0, len(text))):
        while begins < start:
            begins, length = next(told, (len(text), 0))
        while begins < end:
            # A file may have been edited since.
            if begins + length <= end and _NINES.fullmatch(text, begins, begins + length):
                yield (begins, begins + length, DIGITS) if is_string else (start, end, f'"{NUMBER}"')
            begins, length = next(told, (len(text), 0))


def fits_text(then: bytes, now: bytes) -> bool:
    """Whether a text with holes is another one."""
    holes = list(HOLE.finditer(then))
    if not holes or not now.startswith(then[: holes[0].start()]):
        return False
    at = holes[0].start()
    for hole, following in pairwise((*holes, None)):
        assert hole is not None
        piece = then[hole.end() : None if following is None else following.start()]
        found = len(now) - len(piece) if following is None else now.find(piece, at + 1)
        if found <= at or found - at > LONGEST or (following is None and not now.endswith(piece)):
            return False
        if not _FILLED[hole.lastgroup].fullmatch(now, at, found):
            return False
        at = found + len(piece)
    return True


def fits_value(then: Any, now: Any) -> bool:
    """The same for values of JSON that are no objects and no lists."""
    return isinstance(then, str) and isinstance(now, str | int | float) and fits_text(*map(json.encode, (then, now)))
