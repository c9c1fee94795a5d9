"""Merge the answers of several rounds into the one answer that a client sees.

Served calls do not reach the client as calls, because it would run them; reports about them are inserted in their
place. Every Start but the first, and every Finish but the last, is dropped, and usage is summed.

A client that sends reports back gets them in the model's order, with the reasoning state of their calls before them: a
round is held back from its first served call on, until its calls are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from toolglot.events import Close, Delta, Event, Fault, Finish, Fold, Open, Start
from toolglot.ir import Block, Thinking, ToolCall, Usage, replace, used_by_both
from toolglot.tools.served import ReportPiece

_DROPPED = -1


class HeldBlock(Struct):
    """A block of the round that the client has not received yet."""

    block: Block
    events: list[Event]

    @property
    def is_state(self) -> bool:
        """Reasoning without text: the state of a block next to it, or a model's encrypted reasoning."""
        return isinstance(self.block, Thinking) and not self.block.text and len(self.events) == 2


class RoundMerger:
    """Feed it each round's events between `begin` and the round's end, one block at a time as encoders get them.
    `serves` identifies served calls; `holds`: a round is held back from its first served call on."""

    def __init__(self, serves: Callable[[ToolCall], bool], *, holds: bool = False) -> None:
        self._serves = serves
        self._holds = holds
        self._tail: list[HeldBlock] = []
        self._started = False
        self._next = 0
        self._places: dict[int, int] = {}
        self._held: list[Event] = []  # a block of reasoning without text so far
        self._is_served_state = False  # the held reasoning led to a served call
        self._opening: list[Event] = []  # events after Start, before anything that the model says
        self._round = Fold()
        self._seen = Fold()
        self.finish: Finish | None = None
        """The end of the last round."""
        self.failed = False
        self.usage: Usage | None = None

    def begin(self) -> None:
        self._round = Fold()
        self._places, self._held, self._tail = {}, [], []
        self._is_served_state = False
        self.finish = None

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """Return the client's events for these events of the current round."""
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
                self.finish, self.usage = event, used_by_both(self.usage, usage)
            case Fault():
                self.failed = True
                seen.append(event)
            case _ if self._tail:
                self._hold(event)
            case Delta(index=index) | Close(index=index) if self._places.get(index) == _DROPPED:
                pass
            case Open(index=index, block=ToolCall() as call) if self._serves(call):
                if self._holds:
                    # Opaque state travels in reasoning without text, next to its call.
                    held, self._held = self._held, []
                    for each in (*held, event):
                        self._hold(each)
                else:
                    self._places[index] = _DROPPED
                    self._is_served_state = bool(self._held)
            case Open(block=Thinking(text="")):
                if not self._is_served_state:
                    self._release(seen)
                self._held, self._is_served_state = [event], False
            case Close() if self._held and len(self._held) == 1 and _is_open(self._held[0], event.index):
                self._held.append(event)
            case _:
                self._release(seen)
                self._emit_reindexed(event, seen)

    def _hold(self, event: Event) -> None:
        if isinstance(event, Open):
            self._tail.append(HeldBlock(event.block, []))
        self._tail[-1].events.append(event)

    def release(self) -> list[Event]:
        """Return reasoning without text at the end of the current round, which is the last one. Such reasoning in
        earlier rounds holds the state of calls that the client does not see.
        """
        seen: list[Event] = []
        if not self._is_served_state:
            self._release(seen)
        return self._emit(seen)

    def held(self) -> list[HeldBlock]:
        """Return the held-back content of the current round, after the round has ended."""
        return self._tail

    def emit_held(self, block: HeldBlock) -> list[Event]:
        seen: list[Event] = []
        for event in block.events:
            self._emit_reindexed(event, seen)
        return self._emit(seen)

    def _release(self, seen: list[Event]) -> None:
        held, self._held, self._is_served_state = self._held, [], False
        for event in held:
            self._emit_reindexed(event, seen)

    def _emit_reindexed(self, event: Event, seen: list[Event]) -> None:
        """Emit the event with its block's index for the client."""
        assert isinstance(event, (Open, Delta, Close))
        if isinstance(event, Open):
            self._places[event.index] = self._next
            self._next += 1
        place = self._places[event.index]
        seen.append(event if place == event.index else _with_index(event, place))

    def insert(self, pieces: Sequence[ReportPiece], places: dict[int, int]) -> list[Event]:
        """Insert pieces of a report; `places` are the client's indices of its blocks. They wait until the answer has
        begun."""
        told: list[Event] = []
        for piece in pieces:
            if isinstance(piece, Open):
                places[piece.index] = self._next
                self._next += 1
            told.append(_with_index(piece, places[piece.index]))
        if not self._started:
            self._opening += told
            return []
        return self._emit(told)

    def _emit(self, events: list[Event]) -> list[Event]:
        for event in events:
            self._seen.add(event)
        return events

    def content(self) -> tuple[Block, ...]:
        """Return the model's content in the current round, after the round has ended."""
        return self._round.response().content

    def end(self, finish: Finish) -> list[Event]:
        """Return the last event, with the usage of all rounds."""
        return self._emit([replace(finish, usage=self.usage)])

    @property
    def shown(self) -> tuple[Block, ...]:
        """What the client has so far, or gets as soon as the answer begins; complete between rounds."""
        if self._started:
            return self._seen.content
        opening = Fold()
        for event in self._opening:
            opening.add(event)
        return opening.content

    def seen(self) -> tuple[Block, ...]:
        """Return all content that the client received, once the last event has arrived."""
        return self._seen.response().content


def _is_open(held: Event, index: int) -> bool:
    return isinstance(held, Open) and held.index == index


def _with_index(event: ReportPiece, index: int) -> ReportPiece:
    return replace(event, index=index)
