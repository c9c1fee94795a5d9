"""The answers of several rounds as one: what a client sees of a loop.

Calls that are served here do not reach the client as calls, which it would run; what is told of them in their place is
put in between. Every round's Start but the first, and every Finish but the last, is left out, and usage adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from toolglot.events import Close, Delta, Event, Fault, Finish, Fold, Open, Start
from toolglot.ir import Block, Thinking, ToolCall, Usage, replace, used_by_both
from toolglot.tools.served import Piece

_DROPPED = -1


class Merge:
    """Feed it each round's events between `begin` and the round's end. `serves` knows the calls that are served."""

    def __init__(self, serves: Callable[[ToolCall], bool]) -> None:
        self._serves = serves
        self._started = False
        self._next = 0
        self._places: dict[int, int] = {}
        self._held: list[Event] = []  # a block of reasoning that has said nothing yet
        self._opening: list[Event] = []  # what comes behind Start, before anything the model says
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
        """What the client sees of these events of the current round."""
        seen: list[Event] = []
        for event in events:
            self._round.add(event)
            self._pass(event, seen)
        return self._shown(seen)

    def _pass(self, event: Event, seen: list[Event]) -> None:
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
                # State that only its owner reads travels in reasoning without words, next to the call it belongs to.
                self._held = []
                self._places[index] = _DROPPED
            case Open(block=Thinking(text="")):
                self._release(seen)
                self._held = [event]
            case Close() if self._held and len(self._held) == 1 and _opens(self._held[0], event.index):
                self._held.append(event)
            case _:
                self._release(seen)
                self._place(event, seen)

    def _release(self, seen: list[Event]) -> None:
        held, self._held = self._held, []
        for event in held:
            self._place(event, seen)

    def _place(self, event: Event, seen: list[Event]) -> None:
        """The event under the index that its block has for the client, unless that is left out."""
        assert isinstance(event, (Open, Delta, Close))
        if isinstance(event, Open):
            self._places[event.index] = self._next
            self._next += 1
        place = self._places[event.index]
        if place != _DROPPED:
            seen.append(event if place == event.index else _at(event, place))

    def insert(self, pieces: Sequence[Piece], first: int) -> list[Event]:
        """Pieces of a teller whose block 0 is the client's block `first`. Before the answer has begun they wait."""
        told: list[Event] = [_at(piece, first + piece.index) for piece in pieces]
        self._next = max([self._next, *(first + piece.index + 1 for piece in pieces)])
        if not self._started:
            self._opening += told
            return []
        return self._shown(told)

    @property
    def next(self) -> int:
        """The index of the next block that the client sees."""
        return self._next

    def _shown(self, events: list[Event]) -> list[Event]:
        for event in events:
            self._seen.add(event)
        return events

    def content(self) -> tuple[Block, ...]:
        """What the model said in the current round, which has ended."""
        return self._round.response().content

    def end(self, finish: Finish) -> list[Event]:
        """The last event: the usage of all rounds."""
        return self._shown([replace(finish, usage=self.usage)])

    def seen(self) -> tuple[Block, ...]:
        """What the client has got in all, once the last event has come."""
        return self._seen.response().content


def _opens(held: Event, index: int) -> bool:
    return isinstance(held, Open) and held.index == index


def _at(event: Piece, index: int) -> Piece:
    return replace(event, index=index)
