"""Where the chat is shown: answers on one stream, everything beside them on the same or on another.

Answers come from the event loop's thread and questions from the keyboard's. While a question stands there, what is to
be shown waits, so that nothing is written into the middle of it.
"""

from __future__ import annotations

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
            with suppress(BrokenPipeError):
                stream.write(text)
                stream.flush()
