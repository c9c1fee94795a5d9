"""What the text so far says about the place where reading goes on."""

from __future__ import annotations

import re

PREFIXES = " \t\r>-*+0123456789.)"
"""What may stand before a code block on its line: white space, and the marks of quotations and lists."""
_TICKS = re.compile(r"`++")


class Line:
    """The current line of the answer: `blank` while it has only white space, `bare` while it has only that and the
    marks of quotations and lists, `in_code` inside backticks, which as many of them close as opened."""

    __slots__ = ("_in_mark", "_opened", "_run", "_ticked", "bare", "blank")

    def __init__(self) -> None:
        self.fresh()

    def fresh(self) -> None:
        """A new line, or what is as good as one: behind a call, or behind the reasoning."""
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

    def met_mark(self) -> None:
        """A mark that opens calls stands inside backticks: right behind them, so does what follows it, up to their end
        or to an empty line. A backtick elsewhere means nothing behind the end of its line."""
        self._in_mark = self._in_mark or self._ticked

    def add(self, text: str) -> None:
        """More text of the answer."""
        if "\n" in text:
            *before, text = text.split("\n")
            for line in before if self._in_mark else ():
                self._more(line)
                self._end_line()
            if not self._in_mark:
                self.fresh()
        self._more(text)

    def _end_line(self) -> None:
        self._end_run()
        if self.blank or not self._opened:
            self.fresh()
        self.blank = self.bare = True

    def _more(self, text: str) -> None:
        if not text:
            return
        self._ticked = text[-1] == "`"
        if self.bare:
            self.blank = self.blank and text.isspace()
            self.bare = not text.strip(PREFIXES)
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
        """Runs of so many backticks have ended: the first opens code, and the next one of the same length closes it."""
        opened = self._opened
        for run in runs:
            if not opened:
                opened = run
            elif opened == run:
                opened = 0
                self._in_mark = False
        self._opened = opened
