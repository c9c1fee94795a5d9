"""The backticks around code blocks, in text that comes in pieces."""

from __future__ import annotations

import re
from typing import Final

MAX_TICKS: Final = 64
"""The longest fence, so that an endless run of backticks is not waited for."""
_TICKS = re.compile(rf"`{{3,{MAX_TICKS}}}")


def next_fence(text: str, at: int, *, last: bool) -> tuple[int, str]:
    """Where the next fence stands, and the fence; empty while there is none, or while it may still grow.

    `last`: nothing follows.
    """
    found = _TICKS.search(text, at)
    if found is None:
        # One or two backticks at the end of the text may grow.
        return len(text) if last else max(len(text.rstrip("`")), at), ""
    grows = found.end() == len(text) and len(found.group()) < MAX_TICKS and not last
    return found.start(), "" if grows else found.group()
