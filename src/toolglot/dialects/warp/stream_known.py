"""The tasks and messages that a stream has told of, in their order, and those that were sent before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.masks import update
from toolglot.dialects.warp.sent import Sent
from toolglot.dialects.warp.stream_entry import Entry, kind_of
from toolglot.dialects.warp.undo import UndoLog

SILENT = "$silent"
"""The note on an entry for a message that was put aside: only what it may still become is kept of it."""


class Known:
    """A rollback makes it forget what the transaction brought."""

    def __init__(self, undo: UndoLog, sent: Sent) -> None:
        self._undo = undo
        self._sent = sent
        self._seen: set[str] = set()
        self._gone: set[str] = set()  # to other tasks
        self.roots: set[str] = set()
        self.subtasks: set[str] = set()
        self._entries: dict[str, Entry] = {}  # by the id of their message
        self._order: list[Entry] = []

    # Tasks

    def learn_root(self, task_id: str) -> None:
        self._learn(self.roots, (task_id,))

    def learn_subtask(self, task_id: str) -> None:
        self._learn(self.subtasks, (task_id,))

    def is_inside(self, task_id: str) -> bool:
        """Is this a task inside the conversation? What is said there is no part of the answer."""
        return task_id in self.subtasks or (task_id not in self.roots and self._sent.is_inside(task_id))

    def is_root(self, task_id: str) -> bool:
        """Is this the conversation?"""
        return task_id in self.roots or self._sent.is_root(task_id)

    # Messages

    def learn(self, messages: Iterable[Any]) -> None:
        """Messages of earlier turns stay such, though the server tells them again."""
        self._learn(self._seen, (message.id for message in messages if not self._sent.has(message.id)))

    def _learn(self, known: set[str], ids: Iterable[str]) -> None:
        fresh = set(ids) - known
        known |= fresh
        if fresh:
            self._undo.note(lambda: known.difference_update(fresh))

    def has(self, message_id: str, *, inside: bool = False) -> bool:
        """Has this stream told of the message, in the conversation or in a task inside it?"""
        return message_id in self._seen and (inside or message_id not in self._gone)

    def is_earlier(self, message_id: str) -> bool:
        """Is it a message of an earlier turn?"""
        return self._sent.has(message_id)

    def is_changed(self, message: Any) -> bool:
        """Does a message of an earlier turn say something else than it did?"""
        return not self._sent.says(message)

    def entry(self, message_id: str) -> Entry | None:
        return self._entries.get(message_id)

    def enter(self, message: Any, task_id: str, how: str = "") -> Entry:
        """An entry for a copy of this message, which changes to the message will find."""
        copy = new("Message")
        copy.CopyFrom(message)
        entry, number = Entry(copy, task_id, self._undo.transaction, how), message.id
        if not number:
            return entry
        older = self._entries.get(number)
        if number in self._gone:
            self._gone.discard(number)
            self._undo.note(lambda: self._gone.add(number))
        if older is not None:
            entry.order = older.order
            entry.said = older.said if how == "$more" else entry.said
        else:
            entry.order = length = len(self._order)
            self._order.append(entry)
            self._undo.note(lambda: self._shorten(length))
        self._entries[number] = entry
        self._undo.note(lambda: self._put_back(number, older))
        return entry

    def enter_silent(self, message: Any, task_id: str) -> None:
        """A message that was put aside, which an update may make a part of the answer."""
        if kind_of(message) == "placeholder":
            self.enter(message, task_id).done = True
            return
        bare = new("Message")
        for path in ("id", "task_id", "tool_call.tool_call_id"):
            update(bare, message, path)
        self.enter(bare, task_id, SILENT).done = True

    def _shorten(self, length: int) -> None:
        del self._order[length:]

    def _put_back(self, number: str, older: Entry | None) -> None:
        if older is None:
            self._entries.pop(number, None)
        else:
            self._entries[number] = older

    def between(self, task_id: str, first: str, last: str) -> Iterator[Entry]:
        """What there is of the messages of a task from the first to the last; messages of earlier turns come before."""
        begin, end = self._place(first), self._place(last)
        if begin is None or end is None:
            return
        places = self._order[begin + (begin < 0) : end + 1]
        self._undo.spend(64 * len(places))
        for entry in places:
            latest = self._entries.get(entry.message.id)
            if entry.task_id == task_id and latest is not None and latest.order == entry.order:
                yield entry
                if latest is not entry:
                    yield latest

    def _place(self, message_id: str) -> int | None:
        entry = self._entries.get(message_id)
        if entry is not None:
            return entry.order
        return -1 if self.is_earlier(message_id) else None

    def forget(self, message_id: str) -> None:
        """The message has gone to another task."""
        entry = self._entries.pop(message_id, None)
        if entry is not None:
            self._undo.note(lambda: self._put_back(message_id, entry))
            self._learn(self._gone, (message_id,))
