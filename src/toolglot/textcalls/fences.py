"""Code fences (backticks or tildes) in text that arrives in pieces."""

from __future__ import annotations

import re
from typing import Final

FENCES: Final = ("```", "~~~")
MAX_TICKS: Final = 64
"""The longest fence, so that an endless run of backticks is not awaited."""
_RUNS: Final = {fence[0]: re.compile(f"{fence[0]}{{3,{MAX_TICKS}}}") for fence in FENCES}


class CodeFence:
    """The fence of an open code block; empty outside of one."""

    __slots__ = ("_opening", "mark")

    def __init__(self, mark: str = "") -> None:
        self.mark = mark
        self._opening = True  # on the line of the fence

    def passed(self, text: str) -> None:
        """Text inside the block was passed on."""
        self._opening = self._opening and "\n" not in text

    def closed_by(self, fence: str, *, line_start: bool) -> bool:
        """The line of a fence has no other backticks: with as many again it is inline code, not a block."""
        within_line = self._opening and self.mark[0] == "`"
        return (line_start or within_line) and len(fence) >= len(self.mark)


def next_fence(text: str, at: int, tick: str, *, last: bool) -> tuple[int, str]:
    """Return where the next fence of this character is, and the fence; empty if there is none, or if it may grow.
    `last`: nothing follows."""
    found = _RUNS[tick].search(text, at)
    if found is None:
        # One or two backticks at the end of the text may grow.
        return len(text) if last else max(len(text.rstrip(tick)), at), ""
    grows = found.end() == len(text) and len(found.group()) < MAX_TICKS and not last
    return found.start(), "" if grows else found.group()
