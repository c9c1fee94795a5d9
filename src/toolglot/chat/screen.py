"""Where the chat is shown: answers on one stream, everything beside them on the same or on another.

Answers come from the event loop's thread and questions from the keyboard's. While a question stands there, what is to
be shown waits, so that nothing is written into the middle of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from toolglot.chat.render import Renderer, styled
from toolglot.chat.telling import Line


class Screen:
    """`width` tells the columns of this moment; None: lines are not broken. `colour` false: nothing is styled.
    `thoughts`: reasoning is shown too."""

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
        """Why answers cannot be written (any more)."""

    def renderer(self) -> Renderer:
        return Renderer(width=self._width(), colour=self.colour)

    def answer(self, text: str) -> None:
        """More of an answer, as a renderer made it."""
        self._write(self._answers, text)

    def thought(self, text: str) -> None:
        """More reasoning: safe text."""
        if self.thoughts:
            self._write(self._beside, "\n".join(self.style(line, "faint") for line in text.split("\n")))

    def tell(self, *lines: Line | str) -> None:
        """Whole lines beside the answer."""
        for line in lines:
            told = line if isinstance(line, Line) else Line(line)
            self._write(self._beside, self.style(told.text, *told.style) + "\n")

    def tell_at_once(self, line: Line) -> None:
        """A line in the middle of a question, which goes on afterwards."""
        with self._lock:
            self.release()
            self.tell(line)
            self.hold()

    def style(self, text: str, *style: str) -> str:
        return styled(text, *style) if self.colour else text

    def hold(self) -> None:
        """A question is asked: what comes now is shown afterwards."""
        with self._lock:
            self._held = self._held if self._held is not None else []

    def release(self, first: str = "") -> None:
        """The question is over. `first` ends its line, where no answer did."""
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
                _abandon(stream)


def _abandon(stream: TextIO) -> None:
    """Nobody reads this stream, or its disk is full. What is written to it from now on goes nowhere, and so does what
    it still holds, which Python would try to write once more, and complain, when it ends."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
