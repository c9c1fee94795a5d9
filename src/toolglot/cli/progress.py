"""Progress of long work on a terminal: one line on standard error, which disappears when the work ends. Nothing is
shown for short work, or if standard error is not a terminal. A thread draws the line, so a single long step is visible
too.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from shutil import get_terminal_size
from time import monotonic
from types import TracebackType
from typing import Self, TextIO

from toolglot.columns import cut
from toolglot.lint.report import visible

DELAY = 0.5
"""Seconds before the line appears."""
INTERVAL = 0.2
"""Seconds between updates."""
ERASE = "\r\x1b[K"


class Progress:
    """Progress of long work: `with Progress("replaying", total=9) as progress`, and `progress.step(name)` before each
    step. Other output needs `progress.hidden()`."""

    def __init__(
        self,
        verb: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
        delay: float = DELAY,
    ) -> None:
        self._verb, self._total = verb, total
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty() and environ.get("TERM") != "dumb"
        self._delay = delay
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._started, self._count, self._name = monotonic(), 0, ""
        self._is_drawn = False

    def __enter__(self) -> Self:
        if self._is_shown:
            self._thread = threading.Thread(target=self._draw_repeatedly, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._erase()

    def step(self, name: str = "") -> None:
        """Begin the next step."""
        self._count += 1
        self._name = name

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the line while something else is written."""
        with self._lock:
            self._erase()
            yield

    def line(self) -> str:
        """Return the displayed line, without its end."""
        count = f" {self._count} of {self._total}" if self._total is not None and self._count else ""
        name = f": {self._name}" if self._name else ""
        return visible(f"{self._verb}{count}{name} ({monotonic() - self._started:.0f} s)")

    def _draw_repeatedly(self) -> None:
        wait = self._delay
        while not self._ended.wait(wait):
            wait = INTERVAL
            with self._lock:
                self._stream.write(ERASE + cut(self.line(), get_terminal_size().columns - 1))
                self._stream.flush()
                self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            self._stream.write(ERASE)
            self._stream.flush()
            self._is_drawn = False
