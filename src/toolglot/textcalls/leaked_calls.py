"""Restore the text of leaked calls that turn out to be broken.

A model with native calls that writes a partial call into its text has most likely made the same call natively, or is
writing about calls. Then only the text is broken, and it is shown unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from toolglot.textcalls.call_probe import FoundCall
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.events import CallEvent
from toolglot.textcalls.grammar import Format


class LeakedCallReader(Engine):
    """An engine that buffers the text of a call until the call ends."""

    def __init__(
        self,
        text_format: Format,
        tools: Mapping[str, Any],
        *,
        starts_in_reasoning: bool = False,
        ends_at: tuple[str, ...] = (),
    ) -> None:
        super().__init__(text_format, tools, starts_in_reasoning=starts_in_reasoning, ends_at=ends_at)
        self._heard: deque[str] = deque()
        self._start = 0  # offset in the answer of the first piece that is kept
        self._passed = 0  # offset up to which nothing has to be restored
        self._opened: dict[int, int] = {}  # offsets of the calls by their indices

    def feed(self, text: str) -> Sequence[CallEvent]:
        while self._heard and self._start + len(self._heard[0]) <= self._passed:
            self._start += len(self._heard.popleft())
        self._opened = {index: place for index, place in self._opened.items() if place >= self._start}
        self._heard.append(text)
        return super().feed(text)

    def original_text(self, index: int, raw: str) -> str:
        """Return all text from the beginning of a call on, as far as it has arrived. In a list of calls, only the first
        has its own beginning. For the others, it is the part of their arguments that was read, or the whole list.
        """
        heard = "".join(self._heard)
        if index not in self._opened and raw and raw in heard:
            return heard[heard.rfind(raw) :]
        place = self._opened.get(index, max(self._opened.values(), default=self._start))
        return heard[place - self._start :]

    def _open(self, found: FoundCall) -> bool:
        place = self._offset + self._at
        self._opened[self._sink.calls] = place
        self._passed = max(self._passed, place)
        return super()._open(found)

    def _emit_text(self, end: int) -> None:
        super()._emit_text(end)
        self._passed = max(self._passed, self._offset + self._at)
