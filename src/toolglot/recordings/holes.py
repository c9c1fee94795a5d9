"""Recorded JSON that has holes, where something was redacted: does it fit a text that has the real value there?

A hole stands for any text inside of one string: it never goes over a quote, so only what has the same structure fits.
Where a part of the text behind a hole may stand in several places the first one is right: a later one would make the
hole larger, and the next no safer. So one look at each side is enough.
"""

from __future__ import annotations

import re

HOLE = re.compile(rb"(?:\[redacte(?:d(?:\]\**)?)?)+|9[9.,:/ +-]{2,}9")
"""Where the length counts it is filled up with stars, or cut. Numbers are redacted to nines: JSON stays JSON."""
LONGEST = 64 * 1024
"""Bytes that one hole may stand for."""
_INSIDE = re.compile(rb"(?:[^\"\\]|\\.)+", re.DOTALL)


def fits_text(then: bytes, now: bytes) -> bool:
    """Whether a text with holes is another one."""
    first, *rest = HOLE.split(then)
    if not rest or not now.startswith(first):
        return False
    at = len(first)
    for number, piece in enumerate(rest):
        is_last = number == len(rest) - 1
        found = len(now) - len(piece) if is_last else now.find(piece, at + 1)
        if found <= at or found - at > LONGEST or (is_last and not now.endswith(piece)):
            return False
        if not _INSIDE.fullmatch(now, at, found):
            return False
        at = found + len(piece)
    return True
