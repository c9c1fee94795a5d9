"""What a stream has said and nobody has been told yet, in its order, and when it may be passed on.

Text goes on as it comes. What says nothing yet holds nothing back: when something is said behind it, it is put aside,
and follows if it becomes something after all. Calls wait until something is said behind them and their transaction is
over, or the answer is, because updates may still change them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from toolglot.dialects.warp.stream_entry import AnswerEntry, SideAction
from toolglot.dialects.warp.stream_messages import StreamMessages
from toolglot.dialects.warp.stream_output import StreamOutput
from toolglot.dialects.warp.undo import UndoLog


class StreamQueue:
    def __init__(self, out: StreamOutput, known: StreamMessages, undo: UndoLog) -> None:
        self._out = out
        self._known = known
        self._undo = undo
        self._queue: deque[AnswerEntry | SideAction] = deque()
        self._speakers = 0  # entries in the queue that have text
        self._depth = 0  # transactions that are open behind all that was put aside
        self.side_actions = 0
        """How often something was put aside."""

    def add_side_action(self, message: Any, report: str = "") -> None:
        """Keeps an action, or a whole event, for the next event that is passed on."""
        self.side_actions += 1
        side_action = SideAction(message, self._undo.transaction, report)
        self._out.side_bytes += len(side_action.data)
        self._depth += side_action.depth
        self._queue.append(side_action)

    def add(self, entry: AnswerEntry) -> None:
        self._queue.append(entry)
        self._speakers += entry.has_text

    def change(
        self, entry: AnswerEntry, change: Callable[[], None], paths: tuple[str, ...] = (), *, growing: bool = False
    ) -> None:
        """Changes an entry under these paths; a rollback can undo it. `growing`: its spoken text only goes on."""
        now = self._undo.transaction
        if (entry.changed_in if growing else entry.transaction) < now:
            undo, size = (entry.snapshot_text(), 0) if growing else entry.snapshot(paths)
            self._undo.record(lambda: self._change_counted(entry, undo), size)
        entry.changed_in = max(entry.changed_in, now)
        self._change_counted(entry, change)

    def _change_counted(self, entry: AnswerEntry, change: Callable[[], None]) -> None:
        """Makes a change after which an entry may speak that did not, or the other way round."""
        waits = not entry.done
        self._speakers -= waits * entry.has_text
        change()
        self._speakers += waits * entry.has_text

    def drop_transaction(self, transaction: int) -> None:
        """Drops what this transaction brought."""
        self._depth -= self._out.drop_side_actions(transaction)
        while self._queue and self._queue[-1].transaction >= transaction:
            item = self._queue.pop()
            if isinstance(item, SideAction):
                self._depth -= item.depth
                self._out.side_bytes -= len(item.data)
                continue
            self._speakers -= item.has_text
            if item.index >= 0:
                self._out.cancel_block(item)

    # Transactions, for a client that follows them

    def begin(self, action: Any) -> None:
        """What was said before is told before it, so that only what comes behind it can be taken back."""
        self.flush(final=True)
        self._undo.begin()
        self.add_side_action(action)

    def roll_back(self, action: Any) -> None:
        """What the client has been told of a transaction that is taken back, it takes back itself."""
        for _ in range(self._depth - self._undo.depth):
            self.add_side_action(action)

    # The way out

    def flush(self, *, final: bool) -> None:
        """Passes on what can be: the first entry of the queue, and those before which nothing waits any more."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, SideAction):
                self._out.add_side_action(item)
                self._queue.popleft()
                continue
            if not self._flush_entry(item, final):
                return
            self._speakers -= item.has_text
            item.finish()
            self._queue.popleft()

    def _flush_entry(self, entry: AnswerEntry, final: bool) -> bool:
        """Passes on what there is of an entry; whether that was all."""
        out = self._out
        if entry.index < 0 and (entry.moved or entry.task_id in self._known.subtasks):
            if not final and not self._undo.is_final(entry.changed_in if entry.moved else None):
                return False  # which may come back to the conversation
            out.emit_as_side_action(entry)
        elif not final and self._known.roots and not self._known.is_root(entry.task_id):
            return False  # nobody knows yet whose task it is
        elif entry.has_text:
            out.emit_text(entry)
            if not final and self._speakers < 2:
                return False
            out.close_block(entry)
        elif not final and not (self._speakers and self._can_emit_early(entry)):
            return False
        elif entry.is_silent or not out.emit_whole_block(entry):
            out.emit_as_side_action(entry)
        return True

    def _can_emit_early(self, entry: AnswerEntry) -> bool:
        """May this be passed on before the end, when something is said behind it?"""
        return entry.kind != "call" or (entry.transaction > 0 and self._undo.is_final(entry.changed_in))
