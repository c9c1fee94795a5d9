"""The state of tasks while a stream changes them. Messages form a linked list, so that a move costs only its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.masks import can_hold, paths_overlap, set_text, text_at


class TaskMessage:
    """A message of a task. Appended text is kept in pieces until another change affects it."""

    __slots__ = ("after", "before", "message", "pieces", "saved_in")

    def __init__(self, message: Any, transaction: int = 0) -> None:
        self.message = new("Message")
        self.message.CopyFrom(message)
        self.pieces: dict[str, list[str]] = {}
        self.saved_in = transaction
        """The last transaction in which it was saved or created."""
        self.before: TaskMessage | None = None
        self.after: TaskMessage | None = None

    def snapshot(self, transaction: int) -> Callable[[], None]:
        """Make a function that restores the current state.

        A list of pieces is only appended to or replaced, so its length suffices to restore it.
        """
        message, saved_in, self.saved_in = self.message, self.saved_in, transaction
        pieces = {path: (texts, len(texts)) for path, texts in self.pieces.items()}
        self.message = new("Message")
        self.message.CopyFrom(message)

        def undo() -> None:
            self.message, self.saved_in = message, saved_in
            self.pieces = {path: texts for path, (texts, _) in pieces.items()}
            for texts, length in pieces.values():
                del texts[length:]

        return undo

    def write_pieces(self, paths: Sequence[str]) -> None:
        """Write the appended text into the message, for texts that a change at these paths affects."""
        for path in [path for path in self.pieces if any(paths_overlap(path, other) for other in paths)]:
            self._write(path)

    def drop_lost_pieces(self) -> None:
        """Drop the pieces of texts that no longer exist."""
        self.pieces = {path: texts for path, texts in self.pieces.items() if can_hold(self.message, path)}

    def whole(self) -> Any:
        """Return the message with all appended text."""
        for path in list(self.pieces):
            self._write(path)
        return self.message

    def _write(self, path: str) -> None:
        texts = self.pieces.pop(path)
        if can_hold(self.message, path):
            set_text(self.message, path, (text_at(self.message, path) or "") + "".join(texts))


class TaskState:
    """State of a task. `shell` has its fields without the messages; the messages are stored in order and by id."""

    __slots__ = ("_first", "_last", "by_id", "shell")

    def __init__(self, task: Any, transaction: int = 0) -> None:
        self.shell = shell_of(task)
        self.by_id: dict[str, TaskMessage] = {}
        self._first: TaskMessage | None = None
        self._last: TaskMessage | None = None
        for message in task.messages:
            self.append(TaskMessage(message, transaction))

    @property
    def messages(self) -> Iterator[TaskMessage]:
        each = self._first
        while each is not None:
            yield each
            each = each.after

    def append(self, held: TaskMessage) -> Callable[[], None]:
        """Add a message at the end. Returns a function that undoes it."""
        return self.add(held, self._last, None)

    def add(self, held: TaskMessage, before: TaskMessage | None, after: TaskMessage | None) -> Callable[[], None]:
        """Add a message between these two, and under its id. Returns a function that undoes it."""
        name = held.message.id
        older = self.by_id.get(name)
        self.by_id[name] = held
        self.link(held, held, before, after)

        def undo() -> None:
            self.unlink(held, held)
            if older is None:
                self.by_id.pop(name, None)
            else:
                self.by_id[name] = older

        return undo

    def append_run(self, run: Sequence[TaskMessage]) -> None:
        """Append messages that were removed from another task."""
        self.link(run[0], run[-1], self._last, None)
        self.by_id.update((held.message.id, held) for held in run)

    def unlink(self, first: TaskMessage, last: TaskMessage) -> tuple[TaskMessage | None, TaskMessage | None]:
        """Remove a run of messages. Returns the messages before and after it."""
        before, after = first.before, last.after
        if before is None:
            self._first = after
        else:
            before.after = after
        if after is None:
            self._last = before
        else:
            after.before = before
        return before, after

    def link(
        self, first: TaskMessage, last: TaskMessage, before: TaskMessage | None, after: TaskMessage | None
    ) -> None:
        """Insert a run of messages between these two. None means the start or the end of the list."""
        first.before, last.after = before, after
        if before is None:
            self._first = first
        else:
            before.after = first
        if after is None:
            self._last = last
        else:
            after.before = last

    def run(self, first: str, last: str) -> list[TaskMessage] | None:
        """Return the messages from `first` to `last`. None if there is no such run."""
        each, end = self.by_id.get(first), self.by_id.get(last)
        found: list[TaskMessage] = []
        while each is not None and end is not None:
            found.append(each)
            if each is end:
                return found
            each = each.after
        return None

    def whole(self) -> Any:
        task = new("Task")
        task.CopyFrom(self.shell)
        task.messages.extend(held.whole() for held in self.messages)
        return task


def shell_of(task: Any) -> Any:
    """Copy a task without its messages."""
    shell = new("Task")
    shell.CopyFrom(task)
    del shell.messages[:]
    return shell
