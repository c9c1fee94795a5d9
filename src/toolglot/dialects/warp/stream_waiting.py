"""What a stream has said and nobody has been told yet, in its order, and when it may be passed on.

Text goes on as it comes. What says nothing yet holds nothing back: when something is said behind it, it is put aside,
and follows if it becomes something after all. Calls wait until something is said behind them and their transaction is
over, or the answer is, because updates may still change them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from toolglot.dialects.warp.stream_entry import Aside, Entry
from toolglot.dialects.warp.stream_known import Known
from toolglot.dialects.warp.stream_out import Output
from toolglot.dialects.warp.undo import UndoLog


class Waiting:
    def __init__(self, out: Output, known: Known, undo: UndoLog) -> None:
        self._out = out
        self._known = known
        self._undo = undo
        self._queue: deque[Entry | Aside] = deque()
        self._speakers = 0  # entries in the queue that have text
        self._depth = 0  # transactions that are open behind all that was put aside
        self.asides = 0
        """How often something was put aside."""

    def put_aside(self, message: Any, told: str = "") -> None:
        """Keeps an action, or a whole event, for the next event that is passed on."""
        self.asides += 1
        aside = Aside(message, self._undo.transaction, told)
        self._out.aside_bytes += len(aside.data)
        self._depth += aside.depth
        self._queue.append(aside)

    def add(self, entry: Entry) -> None:
        self._queue.append(entry)
        self._speakers += entry.speaks

    def change(
        self, entry: Entry, change: Callable[[], None], paths: tuple[str, ...] = (), *, growing: bool = False
    ) -> None:
        """Changes an entry under these paths; a rollback can undo it. `growing`: its spoken text only goes on."""
        now = self._undo.transaction
        if (entry.changed_in if growing else entry.transaction) < now:
            undo, size = (entry.length(), 0) if growing else entry.before(paths)
            self._undo.note(lambda: self._counted(entry, undo), size)
        entry.changed_in = max(entry.changed_in, now)
        self._counted(entry, change)

    def _counted(self, entry: Entry, change: Callable[[], None]) -> None:
        """Makes a change after which an entry may speak that did not, or the other way round."""
        waits = not entry.done
        self._speakers -= waits * entry.speaks
        change()
        self._speakers += waits * entry.speaks

    def take_back(self, transaction: int) -> None:
        """Drops what this transaction brought."""
        self._depth -= self._out.drop(transaction)
        while self._queue and self._queue[-1].transaction >= transaction:
            item = self._queue.pop()
            if isinstance(item, Aside):
                self._depth -= item.depth
                self._out.aside_bytes -= len(item.data)
                continue
            self._speakers -= item.speaks
            if item.index >= 0:
                self._out.break_off(item)

    # Transactions, for a client that follows them

    def begin(self, action: Any) -> None:
        """What was said before is told before it, so that only what comes behind it can be taken back."""
        self.pass_on(final=True)
        self._undo.begin()
        self.put_aside(action)

    def roll_back(self, action: Any) -> None:
        """What the client has been told of a transaction that is taken back, it takes back itself."""
        for _ in range(self._depth - self._undo.depth):
            self.put_aside(action)

    # The way out

    def pass_on(self, *, final: bool) -> None:
        """Passes on what can be: the first entry of the queue, and those before which nothing waits any more."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, Aside):
                self._out.put(item)
                self._queue.popleft()
                continue
            if not self._is_over(item, final):
                return
            self._speakers -= item.speaks
            item.finish()
            self._queue.popleft()

    def _is_over(self, entry: Entry, final: bool) -> bool:
        """Passes on what there is of an entry; whether that was all."""
        out = self._out
        if entry.index < 0 and (entry.moved or entry.task_id in self._known.subtasks):
            if not final and not self._undo.is_over(entry.changed_in if entry.moved else None):
                return False  # which may come back to the conversation
            out.release(entry)
        elif not final and self._known.roots and not self._known.is_root(entry.task_id):
            return False  # nobody knows yet whose task it is
        elif entry.speaks:
            out.speak(entry)
            if not final and self._speakers < 2:
                return False
            out.close(entry)
        elif not final and not (self._speakers and self._may_go(entry)):
            return False
        elif entry.is_silent or not out.whole_block(entry):
            out.release(entry)
        return True

    def _may_go(self, entry: Entry) -> bool:
        """May this be passed on before the end, when something is said behind it?"""
        return entry.kind != "call" or (entry.transaction > 0 and self._undo.is_over(entry.changed_in))
