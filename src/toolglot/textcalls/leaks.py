"""Leaked calls that turn out to be broken: the text that they were, to be given back.

A model with native calls that writes half a call into its text has most likely made the same call natively, or writes
about calls. Nothing is broken then but the text, which is shown as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.textcalls.engine import Engine
from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.trying import Found


class LeakReader(Engine):
    """An engine that keeps the text from the beginning of a call on until the call is over."""

    _heard = ""
    _start = 0  # the offset of what is kept
    _passed = 0  # up to here nothing can be given back any more
    _opened: dict[int, int]

    def feed(self, text: str) -> Sequence[CallEvent]:
        if self._passed > self._start:
            self._heard, self._start = self._heard[self._passed - self._start :], self._passed
        self._heard += text
        return super().feed(text)

    def given_back(self, index: int, raw: str) -> str:
        """All text from the beginning of a call on, as far as it has come. Where that is not known, from what was read
        of its arguments on."""
        place = self._opened.get(index)
        if place is not None:
            return self._heard[place - self._start :]
        found = self._heard.rfind(raw) if raw else -1
        return self._heard[found:] if found >= 0 else raw
