"""State of the text so far that determines how reading continues."""

from __future__ import annotations

import re
from typing import Final

LINE_PREFIXES = " \t\r>-*+0123456789.)"
"""Characters that may precede a code block on its line: white space, and the marks of quotations and lists."""
_TICKS = re.compile(r"`++")


class LineState:
    """The current line of the answer: `blank` while it has only white space, `bare` while it has only that and the
    marks of quotations and lists, `in_code` inside backticks, which the same number of backticks closes."""

    __slots__ = ("_in_mark", "_opened", "_run", "_ticked", "bare", "blank")

    def __init__(self) -> None:
        self.start_line()

    def start_line(self) -> None:
        """Begin a new line, or the equivalent: after a call, or after the reasoning."""
        self.blank = True
        self.bare = True
        self._ticked = False
        self.leave_code()

    def leave_code(self) -> None:
        self._opened = 0
        self._run = 0  # backticks at the end of the text so far
        self._in_mark = False

    @property
    def in_code(self) -> bool:
        self._end_run()
        return self._opened > 0

    def on_mark(self) -> None:
        """Handle a mark inside backticks. If it directly follows the backticks, the text after it is code too, up to
        their end or an empty line. Other backticks have no effect after the end of their line.
        """
        self._in_mark = self._in_mark or self._ticked

    def add(self, text: str) -> None:
        """Add more text of the answer."""
        if "\n" in text:
            *before, text = text.split("\n")
            for line in before if self._in_mark else ():
                self._add_to_line(line)
                self._end_line()
            if not self._in_mark:
                self.start_line()
        self._add_to_line(text)

    def _end_line(self) -> None:
        self._end_run()
        if self.blank or not self._opened:
            self.start_line()
        self.blank = self.bare = True

    def _add_to_line(self, text: str) -> None:
        if not text:
            return
        self._ticked = text[-1] == "`"
        if self.bare:
            self.blank = self.blank and text.isspace()
            self.bare = not text.strip(LINE_PREFIXES)
        if self._run and text[0] != "`":
            self._end_run()
        if "`" in text:
            runs = [len(run) for run in _TICKS.findall(text)]
            runs[0] += self._run
            self._run = runs.pop() if self._ticked else 0
            self._toggle_code(runs)

    def _end_run(self) -> None:
        if self._run:
            self._toggle_code([self._run])
            self._run = 0

    def _toggle_code(self, runs: list[int]) -> None:
        """Handle runs of these numbers of backticks: the first opens code, and the next one of the same length closes
        it.
        """
        opened = self._opened
        for run in runs:
            if not opened:
                opened = run
            elif opened == run:
                opened = 0
                self._in_mark = False
        self._opened = opened


FENCES: Final = ("```", "~~~")
MAX_TICKS: Final = 64
"""The longest fence, so that an endless run of backticks is not awaited."""
_RUNS: Final = {fence[0]: re.compile(f"{fence[0]}{{3,{MAX_TICKS}}}") for fence in FENCES}


MAX_SPACE_BEFORE_INFO: Final = 8


class CodeFence:
    """The fence of an open code block; empty outside of one.

    A word after a fence (`json`) opens a block, inside another block too. That inner block ends before the outer one:
    its content stays quoted, and calls after both count again.
    """

    __slots__ = ("_lengths", "_opening", "mark")

    def __init__(self, mark: str = "") -> None:
        self.mark = mark
        self._lengths = [len(mark)]  # of the open fences, the innermost last
        self._opening = True  # on the line of the innermost fence

    def passed(self, text: str) -> None:
        """Record that text inside the block was passed on."""
        self._opening = self._opening and "\n" not in text

    def read(self, fence: str, *, opens: bool, line_start: bool) -> bool:
        """Read a fence inside the block. Returns whether it closes the block. `opens`: a word follows it."""
        # The line of a fence has no other backticks: with as many again it is inline code, not a block.
        within_line = self._opening and self.mark[0] == "`"
        if not (line_start or within_line) or len(fence) < self._lengths[-1]:
            return False
        if opens and not within_line:
            self._lengths.append(len(fence))
            self._opening = True
            return False
        self._lengths.pop()
        return not self._lengths


def opens_block(text: str, at: int, *, last: bool) -> bool | None:
    """Does the fence that ends at this offset open a block, as a word follows it? None if the text ends too early."""
    until = at + MAX_SPACE_BEFORE_INFO
    while at < until and text[at : at + 1] in (" ", "\t"):
        at += 1
    return None if at == len(text) and not last else text[at : at + 1].isalnum()


def next_fence(text: str, at: int, tick: str, *, last: bool) -> tuple[int, str]:
    """Return the offset of the next fence of this character, and the fence; empty if there is none, or if it may grow.
    `last`: nothing follows."""
    found = _RUNS[tick].search(text, at)
    if found is None:
        # One or two backticks at the end of the text may grow.
        return len(text) if last else max(len(text.rstrip(tick)), at), ""
    grows = found.end() == len(text) and len(found.group()) < MAX_TICKS and not last
    return found.start(), "" if grows else found.group()
