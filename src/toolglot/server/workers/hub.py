"""How a worker learns what the others know: the parent asks them all, and waits for none of them too long.

Counts never fall. What a worker counted still counts when it is gone; of one that is silent, or died without a word,
what it told last does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from toolglot.server.metrics import Metrics, Snapshot
from toolglot.server.workers.child import Child
from toolglot.server.workers.line import Answer, Answers, Ask, Question

PATIENCE = 1.0
"""Seconds that all workers together have for their answers."""

_snapshots = msgspec.msgpack.Decoder(Snapshot)


class _Round(Struct, eq=False):
    asker: Child
    ask: Ask
    until: float
    missing: set[int]
    """The processes that have not answered."""
    bodies: list[bytes]


class Hub:
    """Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._rounds: dict[int, _Round] = {}
        self._numbers = itertools.count(1)
        self._departed = Metrics()

    @property
    def until(self) -> float | None:
        """When the next answer is too late."""
        return min((each.until for each in self._rounds.values()), default=None)

    def asked(self, asker: Child, ask: Ask, children: Iterable[Child], now: float) -> None:
        if ask.subject == "metrics":
            asker.counted = ask.body
        number = next(self._numbers)
        others = {child.pid: child for child in children if child is not asker and child.hears}
        self._rounds[number] = _Round(asker, ask, now + PATIENCE, set(others), [])
        for child in others.values():
            child.say(Question(number, ask.subject, ask.body))
        self._settle(number, children)

    def answered(self, child: Child, answer: Answer, children: Iterable[Child]) -> None:
        known = self._rounds.get(answer.number)
        if known is None or child.pid not in known.missing:
            return
        known.missing.discard(child.pid)
        if known.ask.subject == "metrics":
            child.counted = answer.body
        else:
            known.bodies.append(answer.body)
        self._settle(answer.number, children)

    def gone(self, child: Child, children: Iterable[Child]) -> None:
        """A worker has ended, and is none of the children any more."""
        if child.counted is not None:
            self._departed.add(_snapshots.decode(child.counted))
        self.silent(child, children)

    def silent(self, child: Child, children: Iterable[Child]) -> None:
        """A worker says and asks nothing more."""
        for number, known in list(self._rounds.items()):
            known.missing.discard(child.pid)
            if known.asker is child:
                del self._rounds[number]
            else:
                self._settle(number, children)

    def give_up(self, now: float, children: Iterable[Child]) -> None:
        """Wait no longer for what is too late."""
        for number, known in list(self._rounds.items()):
            if known.until <= now:
                known.missing.clear()
                self._settle(number, children)

    def _settle(self, number: int, children: Iterable[Child]) -> None:
        known = self._rounds[number]
        if known.missing:
            return
        del self._rounds[number]
        bodies = known.bodies
        if known.ask.subject == "metrics":
            bodies = [each.counted for each in children if each is not known.asker and each.counted is not None]
            bodies.append(msgspec.msgpack.encode(self._departed.snapshot(0, {}, {})))
        known.asker.say(Answers(known.ask.number, bodies))
