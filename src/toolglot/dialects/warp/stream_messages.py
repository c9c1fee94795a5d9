"""The tasks and messages of a stream, in order, and those of the request before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.masks import update_field
from toolglot.dialects.warp.request_tasks import RequestTasks
from toolglot.dialects.warp.stream_entry import AnswerEntry, kind_of
from toolglot.dialects.warp.undo import UndoLog

SILENT = "$silent"
"""The note on an entry for a side action: it keeps only the ids, in case the message gets content later."""


class StreamMessages:
    """Tasks and messages by id. A rollback removes those of the transaction."""

    def __init__(self, undo: UndoLog, request_tasks: RequestTasks) -> None:
        self._undo = undo
        self._request_tasks = request_tasks
        self._seen: set[str] = set()
        self._moved: set[str] = set()  # ids of messages that moved to other tasks
        self.roots: set[str] = set()
        self.subtasks: set[str] = set()
        self._entries: dict[str, AnswerEntry] = {}  # by message id
        self._order: list[AnswerEntry] = []

    # Tasks

    def add_root(self, task_id: str) -> None:
        self._add_ids(self.roots, (task_id,))

    def add_subtask(self, task_id: str) -> None:
        self._add_ids(self.subtasks, (task_id,))

    def is_subtask(self, task_id: str) -> bool:
        """Return whether this is a subtask. Its messages are not part of the answer."""
        return task_id in self.subtasks or (task_id not in self.roots and self._request_tasks.is_subtask(task_id))

    def is_root(self, task_id: str) -> bool:
        """Return whether this is the task of the conversation."""
        return task_id in self.roots or self._request_tasks.is_root(task_id)

    # Messages

    def add_messages(self, messages: Iterable[Any]) -> None:
        """Add messages, except those of earlier turns, which the server may repeat."""
        self._add_ids(
            self._seen, (message.id for message in messages if not self._request_tasks.has_message(message.id))
        )

    def _add_ids(self, known: set[str], ids: Iterable[str]) -> None:
        fresh = set(ids) - known
        known |= fresh
        if fresh:
            self._undo.record(lambda: known.difference_update(fresh))

    def has_message(self, message_id: str, *, in_subtask: bool = False) -> bool:
        """Return whether this stream has the message in the conversation, or (with `in_subtask`) in a subtask."""
        return message_id in self._seen and (in_subtask or message_id not in self._moved)

    def is_from_earlier_turn(self, message_id: str) -> bool:
        """Return whether this is a message of an earlier turn."""
        return self._request_tasks.has_message(message_id)

    def is_changed(self, message: Any) -> bool:
        """Return whether this message of an earlier turn differs from the one in the request."""
        return not self._request_tasks.is_unchanged(message)

    def entry(self, message_id: str) -> AnswerEntry | None:
        return self._entries.get(message_id)

    def add_entry(self, message: Any, task_id: str, how: str = "") -> AnswerEntry:
        """Add an entry for a copy of this message. Later changes find it by the message's id."""
        copy = new("Message")
        copy.CopyFrom(message)
        entry, number = AnswerEntry(copy, task_id, self._undo.transaction, how), message.id
        if not number:
            return entry
        older = self._entries.get(number)
        if number in self._moved:
            self._moved.discard(number)
            self._undo.record(lambda: self._moved.add(number))
        if older is not None:
            entry.order = older.order
            entry.emitted = older.emitted if how == "$more" else entry.emitted
        else:
            entry.order = length = len(self._order)
            self._order.append(entry)
            self._undo.record(lambda: self._truncate(length))
        self._entries[number] = entry
        self._undo.record(lambda: self._restore_entry(number, older))
        return entry

    def add_silent_entry(self, message: Any, task_id: str) -> None:
        """Add an entry for a side action, which an update may turn into a part of the answer."""
        if kind_of(message) == "placeholder":
            self.add_entry(message, task_id).done = True
            return
        bare = new("Message")
        for path in ("id", "task_id", "tool_call.tool_call_id"):
            update_field(bare, message, path)
        self.add_entry(bare, task_id, SILENT).done = True

    def _truncate(self, length: int) -> None:
        del self._order[length:]

    def _restore_entry(self, number: str, older: AnswerEntry | None) -> None:
        if older is None:
            self._entries.pop(number, None)
        else:
            self._entries[number] = older

    def entries_between(self, task_id: str, first: str, last: str) -> Iterator[AnswerEntry]:
        """Yield entries of a task's messages from `first` to `last`. Messages of earlier turns precede all entries."""
        begin, end = self._position(first), self._position(last)
        if begin is None or end is None:
            return
        places = self._order[begin + (begin < 0) : end + 1]
        self._undo.charge(64 * len(places))
        for entry in places:
            latest = self._entries.get(entry.message.id)
            if entry.task_id == task_id and latest is not None and latest.order == entry.order:
                yield entry
                if latest is not entry:
                    yield latest

    def _position(self, message_id: str) -> int | None:
        entry = self._entries.get(message_id)
        if entry is not None:
            return entry.order
        return -1 if self.is_from_earlier_turn(message_id) else None

    def remove_moved(self, message_id: str) -> None:
        """Remove a message that moved to another task."""
        entry = self._entries.pop(message_id, None)
        if entry is not None:
            self._undo.record(lambda: self._restore_entry(message_id, entry))
            self._add_ids(self._moved, (message_id,))
