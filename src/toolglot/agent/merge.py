"""Merge the answers of several rounds into the one answer that a client sees.

Served calls do not reach the client as calls, because it would run them; reports about them are inserted in their
place. Every Start but the first, and every Finish but the last, is dropped, and usage is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from toolglot.events import Close, Delta, Event, Fault, Finish, Fold, Open, Start
from toolglot.ir import Block, Thinking, ToolCall, Usage, replace, used_by_both
from toolglot.tools.served import ReportPiece

_DROPPED = -1


class RoundMerger:
    """Feed it each round's events between `begin` and the round's end. `serves` identifies served calls."""

    def __init__(self, serves: Callable[[ToolCall], bool]) -> None:
        self._serves = serves
        self._started = False
        self._next = 0
        self._places: dict[int, int] = {}
        self._held: list[Event] = []  # a block of reasoning without text so far
        self._opening: list[Event] = []  # events after Start, before anything that the model says
        self._round = Fold()
        self._seen = Fold()
        self.finish: Finish | None = None
        """How the last round ended."""
        self.failed = False
        self.usage: Usage | None = None

    def begin(self) -> None:
        self._round = Fold()
        self._places, self._held = {}, []
        self.finish = None

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """Return what the client sees of these events of the current round."""
        seen: list[Event] = []
        for event in events:
            self._round.add(event)
            self._process(event, seen)
        return self._emit(seen)

    def _process(self, event: Event, seen: list[Event]) -> None:
        match event:
            case Start():
                if not self._started:
                    seen += [event, *self._opening]
                self._started = True
            case Finish(usage=usage):
                self._release(seen)
                self.finish, self.usage = event, used_by_both(self.usage, usage)
            case Fault():
                self.failed = True
                seen.append(event)
            case Open(index=index, block=ToolCall() as call) if self._serves(call):
                # Opaque state travels in reasoning without text, next to its call.
                self._held = []
                self._places[index] = _DROPPED
            case Open(block=Thinking(text="")):
                self._release(seen)
                self._held = [event]
            case Close() if self._held and len(self._held) == 1 and _is_open(self._held[0], event.index):
                self._held.append(event)
            case _:
                self._release(seen)
                self._emit_reindexed(event, seen)

    def _release(self, seen: list[Event]) -> None:
        held, self._held = self._held, []
        for event in held:
            self._emit_reindexed(event, seen)

    def _emit_reindexed(self, event: Event, seen: list[Event]) -> None:
        """Emit the event with its block's index for the client, unless the block is dropped."""
        assert isinstance(event, (Open, Delta, Close))
        if isinstance(event, Open):
            self._places[event.index] = self._next
            self._next += 1
        place = self._places[event.index]
        if place != _DROPPED:
            seen.append(event if place == event.index else _with_index(event, place))

    def insert(self, pieces: Sequence[ReportPiece], first: int) -> list[Event]:
        """Insert pieces of a report, whose block 0 is the client's block `first`. They wait until the answer has
        begun."""
        told: list[Event] = [_with_index(piece, first + piece.index) for piece in pieces]
        self._next = max([self._next, *(first + piece.index + 1 for piece in pieces)])
        if not self._started:
            self._opening += told
            return []
        return self._emit(told)

    @property
    def next(self) -> int:
        """The index of the next block that the client sees."""
        return self._next

    def _emit(self, events: list[Event]) -> list[Event]:
        for event in events:
            self._seen.add(event)
        return events

    def content(self) -> tuple[Block, ...]:
        """What the model said in the current round, which has ended."""
        return self._round.response().content

    def end(self, finish: Finish) -> list[Event]:
        """Return the last event, with the usage of all rounds."""
        return self._emit([replace(finish, usage=self.usage)])

    def seen(self) -> tuple[Block, ...]:
        """Everything that the client got, once the last event has arrived."""
        return self._seen.response().content


def _is_open(held: Event, index: int) -> bool:
    return isinstance(held, Open) and held.index == index


def _with_index(event: ReportPiece, index: int) -> ReportPiece:
    return replace(event, index=index)
