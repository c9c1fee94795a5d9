"""Broadcast a worker's question to all workers and collect the answers, with a timeout.

Counts never decrease. The counts of an ended worker are kept; for one that is silent or died suddenly, its last
reported counts are used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from toolglot.server.metrics import Metrics, Snapshot
from toolglot.server.workers.ipc import AskOthers, CollectedAnswers, WorkerAnswer, WorkerQuestion
from toolglot.server.workers.worker_process import WorkerProcess

ANSWER_TIMEOUT = 1.0
"""Seconds for the answers of all workers together."""

_snapshots = msgspec.msgpack.Decoder(Snapshot)


class _PendingQuestion(Struct, eq=False):
    asker: WorkerProcess
    ask: AskOthers
    until: float
    missing: set[int]
    """The processes that have not answered."""
    bodies: list[bytes]


class QuestionBroadcast:
    """Sends a question to all workers and collects their answers. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._rounds: dict[int, _PendingQuestion] = {}
        self._numbers = itertools.count(1)
        self._departed = Metrics()

    @property
    def next_deadline(self) -> float | None:
        """Time of the next deadline."""
        return min((each.until for each in self._rounds.values()), default=None)

    def on_ask(self, asker: WorkerProcess, ask: AskOthers, children: Iterable[WorkerProcess], now: float) -> None:
        if ask.subject == "metrics":
            asker.counted = ask.body
        number = next(self._numbers)
        others = {child.pid: child for child in children if child is not asker and child.hears}
        self._rounds[number] = _PendingQuestion(asker, ask, now + ANSWER_TIMEOUT, set(others), [])
        for child in others.values():
            child.queue_message(WorkerQuestion(number, ask.subject, ask.body))
        self._finish_if_complete(number, children)

    def on_answer(self, child: WorkerProcess, answer: WorkerAnswer, children: Iterable[WorkerProcess]) -> None:
        known = self._rounds.get(answer.number)
        if known is None or child.pid not in known.missing:
            return
        known.missing.discard(child.pid)
        if known.ask.subject == "metrics":
            child.counted = answer.body
        else:
            known.bodies.append(answer.body)
        self._finish_if_complete(answer.number, children)

    def on_exit(self, child: WorkerProcess, children: Iterable[WorkerProcess]) -> None:
        """Handle the end of a worker, which is no longer among the children."""
        if child.counted is not None:
            self._departed.add(_snapshots.decode(child.counted))
        self.on_silence(child, children)

    def on_silence(self, child: WorkerProcess, children: Iterable[WorkerProcess]) -> None:
        """Handle a worker that will send nothing more."""
        for number, known in list(self._rounds.items()):
            known.missing.discard(child.pid)
            if known.asker is child:
                del self._rounds[number]
            else:
                self._finish_if_complete(number, children)

    def expire(self, now: float, children: Iterable[WorkerProcess]) -> None:
        """Stop waiting for late answers."""
        for number, known in list(self._rounds.items()):
            if known.until <= now:
                known.missing.clear()
                self._finish_if_complete(number, children)

    def _finish_if_complete(self, number: int, children: Iterable[WorkerProcess]) -> None:
        known = self._rounds[number]
        if known.missing:
            return
        del self._rounds[number]
        bodies = known.bodies
        if known.ask.subject == "metrics":
            bodies = [each.counted for each in children if each is not known.asker and each.counted is not None]
            bodies.append(msgspec.msgpack.encode(self._departed.snapshot(0, {}, {})))
        known.asker.queue_message(CollectedAnswers(known.ask.number, bodies))
