"""The queue of entries and side actions that have not been emitted yet, and the rules for emitting them.

Text is emitted as it arrives. A silent entry does not block the queue: if a text follows it, it becomes a side action,
and is emitted later if it gets content. Updates may still change a call, so it waits until a text follows it and its
transaction is final, or until the answer ends.
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
        self._speakers = 0  # number of entries in the queue that have text
        self._depth = 0  # number of transactions that are open after all side actions
        self.side_action_count = 0
        """The number of side actions so far."""

    def add_side_action(self, message: Any, report: str = "") -> None:
        """Keep an action, or a whole event, for the next emitted event."""
        self.side_action_count += 1
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
        """Change an entry at these paths, so that a rollback can undo it. `growing`: text is only appended."""
        now = self._undo.transaction
        if (entry.changed_in if growing else entry.transaction) < now:
            undo, size = (entry.snapshot_text(), 0) if growing else entry.snapshot(paths)
            self._undo.record(lambda: self._change_counted(entry, undo), size)
        entry.changed_in = max(entry.changed_in, now)
        self._change_counted(entry, change)

    def _change_counted(self, entry: AnswerEntry, change: Callable[[], None]) -> None:
        """Make a change, and update the number of entries with text."""
        is_queued = not entry.done
        self._speakers -= is_queued * entry.has_text
        change()
        self._speakers += is_queued * entry.has_text

    def drop_transaction(self, transaction: int) -> None:
        """Drop all side actions and entries of this transaction."""
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

    # Transactions, for a Warp client, which applies them itself

    def begin(self, action: Any) -> None:
        """Begin a transaction. Earlier entries are emitted first, so that only later ones can be rolled back."""
        self.flush(final=True)
        self._undo.begin()
        self.add_side_action(action)

    def roll_back(self, action: Any) -> None:
        """Forward a rollback to the client for each transaction whose begin it has got."""
        for _ in range(self._depth - self._undo.depth):
            self.add_side_action(action)

    # Emitting

    def flush(self, *, final: bool) -> None:
        """Emit entries and side actions in order, up to the first entry that must wait. `final`: none waits."""
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
        """Emit an entry as far as possible. Returns whether it is complete and can leave the queue."""
        out = self._out
        if entry.index < 0 and (entry.moved or entry.task_id in self._known.subtasks):
            if not final and not self._undo.is_final(entry.changed_in if entry.moved else None):
                return False  # a rollback may return it to the conversation
            out.emit_as_side_action(entry)
        elif not final and self._known.roots and not self._known.is_root(entry.task_id):
            return False  # it is not known yet whether its task is a subtask
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
        """Return whether this entry can be emitted before the end of the answer, if a text follows it."""
        return entry.kind != "call" or (entry.transaction > 0 and self._undo.is_final(entry.changed_in))
