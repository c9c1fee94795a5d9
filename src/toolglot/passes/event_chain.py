"""The event passes of one streamed answer, with a short path for text that no pass changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolglot.events import Delta, Event, Fault, Open
from toolglot.ir import Text, ToolCall
from toolglot.passes.carry import Carrier
from toolglot.passes.details import DetailsCarrier
from toolglot.passes.event_passes import goes_unchanged, is_collected, one_through, through
from toolglot.passes.foreign import Reporter
from toolglot.passes.label import Labeller
from toolglot.passes.settle import Settler

if TYPE_CHECKING:
    from toolglot.textcalls.answer import TextAnswerPass
    from toolglot.translate import ExchangeCore

NOTHING = b"\n"
"""A byte that never occurs in a JSON string."""

_UNMOVED = (Labeller, Reporter)
"""Passes that do not change deltas."""


class EventChain:
    """Turns the upstream's events into the client's.

    - `plain`: the upstream's index of an open block whose deltas no pass changes, otherwise -1.
    - `held_back`: bytes in a delta of that block that a pass may hold back.
    """

    __slots__ = (
        "_carrier",
        "_delta_passes",
        "_exchange",
        "_holds_ends",
        "_is_collected",
        "_passes",
        "_text_as",
        "_uncounted",
        "held_back",
        "plain",
        "plain_as",
        "reader",
    )

    def __init__(self, exchange: ExchangeCore) -> None:
        self._exchange = exchange
        self.reader: TextAnswerPass | None = exchange.reader()
        self._passes = exchange.event_passes(self.reader)
        self._delta_passes = [each for each in self._passes if not isinstance(each, _UNMOVED)]
        last = self._passes[-1]
        self._carrier = last if isinstance(last, (Carrier, DetailsCarrier)) else None
        self._uncounted = 0  # characters of the open text that bypassed the carrier
        self._holds_ends = any(isinstance(each, Settler) and each.holds_ends for each in self._passes)
        self.held_back = NOTHING
        self._is_collected = False  # passes still need to see the deltas of the plain block
        self.reset()

    @property
    def service_tier(self) -> str | None:
        """The service tier that the upstream reports."""
        return next((each.service_tier for each in self._passes if isinstance(each, Reporter)), None)

    def reset(self) -> None:
        """Reset for another stream that continues the answer. No block is open."""
        self.plain = -1
        self.plain_as = -1  # the client's index of the plain block
        self._text_as = -1, -1  # index of the open text as the reader and as the client know it

    def feed(self, event: Event) -> Sequence[Event]:
        """Run an event through the passes."""
        if type(event) is Delta:
            if event.index == self.plain and not self._is_collected:
                # Most of a stream is text, and passes change only the block index of text.
                self._uncounted += len(event.text)
                moved = event if self.plain_as == event.index else Delta(self.plain_as, event.text, event.logprobs)
                return (moved,)
            if self.reader is not None:
                return self._parse_text(self.reader, event)
            self._count_text()
            return one_through(self._delta_passes, event)
        if isinstance(event, Fault):
            event = Fault(self._exchange.hide(event.error))
        self._count_text()
        passed = one_through(self._passes, event)
        self._track_block(event, passed)
        return passed

    def add_written(self, delta: Delta) -> Sequence[Event]:
        """Return the client's events for text of the plain block that was already written."""
        if self._is_collected:
            return one_through(self._delta_passes, delta)
        self._uncounted += len(delta.text)
        return (Delta(self.plain_as, delta.text),)

    def label(self, start: Event) -> Sequence[Event]:
        """Give the start of a forwarded answer the id and the model's name that the client gets."""
        return self._passes[0].feed(start)

    def track_forwarded(self, event: Event) -> None:
        """Track the open text of a forwarded stream."""
        self.plain = event.index if type(event) is Open and type(event.block) is Text else -1

    def _parse_text(self, reader: TextAnswerPass, delta: Delta) -> Sequence[Event]:
        """Translate a delta whose text may contain calls, with a short path for text that stays text."""
        found = reader.feed(delta)
        text, text_as = self._text_as
        if len(found) == 1 and text >= 0 and type(only := found[0]) is Delta and only.index == text:
            self._uncounted += len(only.text)
            return (Delta(text_as, only.text),)
        self._count_text()
        passed = through(self._passes[2:], found)  # the passes after the labeller and the reader
        if passed and type(last := passed[-1]) is Delta and reader.text_index >= 0:
            self._text_as = reader.text_index, last.index
        else:
            self._text_as = -1, -1
        return passed

    def _count_text(self) -> None:
        """Report text that bypassed the carrier to it: state may belong to one of several texts."""
        if self._carrier is not None and self._uncounted:
            self._carrier.add_length(self._uncounted)
        self._uncounted = 0

    def _track_block(self, event: Event, passed: Sequence[Event]) -> None:
        """Track whether the deltas of the open block pass unchanged."""
        last = passed[-1] if passed else None
        self.plain = self.plain_as = -1
        if type(event) is not Open or type(last) is not Open:
            return
        if goes_unchanged(event.block, last.block) and not self._exchange.rewrites_arguments(event.block):
            self.plain, self.plain_as = event.index, last.index
            self._is_collected = is_collected(last.block)
            self.held_back = b"}" if self._holds_ends and type(last.block) is ToolCall else NOTHING
