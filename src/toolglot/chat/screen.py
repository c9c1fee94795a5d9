"""The chat's output: answers on one stream, everything else on the same or on another.

Answers come from the event loop's thread and questions from the keyboard's. While a question is open, output waits, so
that nothing is written into the middle of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from toolglot.chat.render import MarkdownRenderer, apply_style
from toolglot.chat.render_events import StyledLine


class Screen:
    """Output of the chat. `width` returns the current number of columns, or None for lines without wrapping. Without
    `colour`, text has no style. `thoughts` shows reasoning."""

    def __init__(
        self,
        answers: TextIO,
        beside: TextIO,
        *,
        width: Callable[[], int | None] = lambda: None,
        colour: bool = False,
        thoughts: bool = True,
    ) -> None:
        self._answers = answers
        self._beside = beside
        self._width = width
        self.colour = colour
        self.thoughts = thoughts
        self._lock = threading.RLock()
        self._held: list[tuple[TextIO, str]] | None = None
        self.failure: OSError | None = None
        """Why answers can no longer be written."""

    def renderer(self) -> MarkdownRenderer:
        return MarkdownRenderer(width=self._width(), colour=self.colour)

    def answer(self, text: str) -> None:
        """Write more of an answer, as rendered."""
        self._write(self._answers, text)

    def thought(self, text: str) -> None:
        """Write more reasoning: safe text."""
        if self.thoughts:
            self._write(self._beside, "\n".join(self.style(line, "faint") for line in text.split("\n")))

    def print_lines(self, *lines: StyledLine | str) -> None:
        """Write whole lines that are not part of the answer."""
        for line in lines:
            told = line if isinstance(line, StyledLine) else StyledLine(line)
            self._write(self._beside, self.style(told.text, *told.style) + "\n")

    def print_at_once(self, line: StyledLine) -> None:
        """Write a line in the middle of a question, which continues afterwards."""
        with self._lock:
            self.release()
            self.print_lines(line)
            self.hold()

    def style(self, text: str, *style: str) -> str:
        return apply_style(text, *style) if self.colour else text

    def hold(self) -> None:
        """Hold the output until `release`, while a question is open."""
        with self._lock:
            self._held = self._held if self._held is not None else []

    def release(self, first: str = "") -> None:
        """End the question. `first` ends its line if no answer did."""
        with self._lock:
            held, self._held = self._held or [], None
            self._write(self._beside, first)
            for stream, text in held:
                self._write(stream, text)

    def _write(self, stream: TextIO, text: str) -> None:
        if not text:
            return
        with self._lock:
            if self._held is not None:
                self._held.append((stream, text))
                return
            try:
                stream.write(text)
                stream.flush()
            except OSError as error:
                if stream is self._answers:
                    self.failure = self.failure or error
                _redirect_to_null(stream)


def _redirect_to_null(stream: TextIO) -> None:
    """Discard further output, because the stream has no reader or its disk is full. Its buffer is discarded too: Python
    would try to write it at exit, and report the failure.
    """
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
