"""The server's tasks, as a client of Warp's keeps them: what was sent, and what the stream's actions made of it.

The official client sends them back with the next request, opaque data included; the strategy `replay` does the same.
Whoever keeps state feeds the upstream's bytes to this beside the decoder and stores what `tasks` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.dialects.warp.fields import kept, restore, text_of
from toolglot.dialects.warp.frames import read_event
from toolglot.dialects.warp.masks import holds, set_text, text_at, update
from toolglot.dialects.warp.queries import SYSTEM_PROMPT
from toolglot.dialects.warp.transcript import identity
from toolglot.dialects.warp.undo import UndoLog
from toolglot.errors import DecodeError
from toolglot.wire.sse import SseReader


class _Held:
    """A message of a task. What its texts have grown by is kept in pieces until something else changes."""

    __slots__ = ("message", "pieces", "saved_in")

    def __init__(self, message: Any, transaction: int = 0) -> None:
        self.message = new("Message")
        self.message.CopyFrom(message)
        self.pieces: dict[str, list[str]] = {}
        self.saved_in = transaction
        """The last transaction in which it was saved, or came."""

    def saved(self, transaction: int) -> Callable[[], None]:
        """What makes it again what it is now. Pieces are only ever added to a list, or the list is left."""
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

    def settled(self) -> Any:
        """The message, with what was appended where it belongs, each text once."""
        pieces, self.pieces = self.pieces, {}
        for path, texts in pieces.items():
            if holds(self.message, path):
                set_text(self.message, path, (text_at(self.message, path) or "") + "".join(texts))
        return self.message


class _Task:
    """A task: all of it but its messages, and these."""

    __slots__ = ("held", "numbered", "shell")

    def __init__(self, task: Any, transaction: int = 0) -> None:
        self.shell = new("Task")
        self.shell.CopyFrom(task)
        del self.shell.messages[:]
        self.held = [_Held(message, transaction) for message in task.messages]
        self.numbered: dict[str, _Held] = {}
        self.number()

    def number(self) -> None:
        self.numbered = {held.message.id: held for held in self.held}

    def whole(self) -> Any:
        task = new("Task")
        task.CopyFrom(self.shell)
        task.messages.extend(held.settled() for held in self.held)
        return task


class Tasks:
    """`sent` is the request as it went to the server. What cannot be read changes nothing: the decoder will tell."""

    def __init__(self, sent: bytes) -> None:
        request = parse("Request", sent)
        self.conversation_id: str = request.metadata.conversation_id
        self._inputs = request.input.user_inputs.inputs
        self._images = request.input.context.images
        self._tasks = {task.id: _Task(task) for task in request.task_context.tasks}
        self._known = {message.id for task in request.task_context.tasks for message in task.messages}
        self._sse = SseReader()
        self._undo = UndoLog()
        self._broken = False
        self.finished = False
        """The server has said that it is done; before that, nothing is worth keeping."""

    def feed(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            for _, frame in self._sse.feed(data):
                if frame.strip() not in (b"", b"[DONE]"):
                    self._event(read_event(frame))
        except DecodeError:
            self._broken = True

    def tasks(self) -> list[str]:
        """The tasks for the next request, in base64. Inputs that the server has not echoed are part of them."""
        tasks = [task.whole() for task in self._tasks.values()]
        root = next((task for task in tasks if not task.dependencies.parent_task_id), None)
        if root is not None:
            self._add_inputs(root)
        return [text_of(serialize(task)) for task in tasks]

    def _root(self) -> _Task | None:
        return next((task for task in self._tasks.values() if not task.shell.dependencies.parent_task_id), None)

    def _add_inputs(self, root: Any) -> None:
        """What was asked, in front of what came for it, unless the server has put it there itself."""
        place = next((at for at, message in enumerate(root.messages) if message.id not in self._known), None)
        if place is None:
            return
        echoed = {
            message.tool_call_result.tool_call_id for message in root.messages if _is(message, "tool_call_result")
        }
        asks = any(_is(message, "user_query") for message in root.messages[place:])
        missing = [
            message
            for number, item in enumerate(self._inputs)
            if (message := self._message_of(item, number, root.id)) is not None
            and not (asks if _is(message, "user_query") else message.tool_call_result.tool_call_id in echoed)
        ]
        # Pictures stand beside the inputs; in a task they stand with the words that they belong to.
        for query in [message for message in missing if _is(message, "user_query")][-1:]:
            query.user_query.context.images.extend(self._images)
        later = [new("Message") for _ in root.messages[place:]]
        for copy, message in zip(later, root.messages[place:], strict=True):
            copy.CopyFrom(message)
        del root.messages[place:]
        root.messages.extend((*missing, *later))

    def _message_of(self, item: Any, number: int, task_id: str) -> Any:
        """An input as a message of a task: the same fields under other numbers."""
        kind = item.WhichOneof("input")
        if kind not in ("user_query", "tool_call_result"):
            return None
        message = new("Message")
        message.id, message.task_id = identity(task_id, "input", len(self._known), number), task_id
        restore(message, kept(item, {kind: {}}))
        if kind == "user_query":
            message.user_query.referenced_attachments.pop(SYSTEM_PROMPT, None)
            if not message.user_query.query and len(message.user_query.ListFields()) <= 1:
                return None
        return message

    # Actions

    def _event(self, event: Any) -> None:
        if event.HasField("init") and event.init.conversation_id:
            self.conversation_id = event.init.conversation_id
        self.finished = self.finished or event.WhichOneof("type") == "finished"
        for action in event.client_actions.actions:
            kind = action.WhichOneof("action")
            if kind in _ACTIONS:
                _ACTIONS[kind](self, getattr(action, kind))

    def _task(self, task_id: str) -> _Task:
        if task_id not in self._tasks:
            self._save_all()
            self._tasks[task_id] = _Task(_empty(task_id))
        return self._tasks[task_id]

    def _save_all(self) -> None:
        """Before tasks come, go or exchange messages: which there are, and which messages are whose."""
        if not self._undo.transaction:
            return
        tasks = dict(self._tasks)
        held = {task_id: (list(task.held), task.shell.SerializeToString()) for task_id, task in tasks.items()}

        def undo() -> None:
            self._tasks = tasks
            for task_id, (messages, shell) in held.items():
                tasks[task_id].held = messages
                tasks[task_id].shell = parse("Task", shell)
                tasks[task_id].number()

        size = sum(len(shell) + 8 * len(messages) for messages, shell in held.values())
        self._undo.note(undo, size)

    def _changing(self, held: _Held) -> None:
        now = self._undo.transaction
        if held.saved_in < now:
            size = held.message.ByteSize()
            self._undo.note(held.saved(now), size)

    def _create(self, action: Any) -> None:
        self._save_all()
        task = _Task(action.task, self._undo.transaction)
        old = self._root()
        if not task.shell.dependencies.parent_task_id and old is not None and old.shell.id != task.shell.id:
            self._replace_root(old, task)
        self._tasks[task.shell.id] = task

    def _replace_root(self, old: _Task, task: _Task) -> None:
        """The server's root takes the place of the client's own, as in Warp's client, behind what was said before."""
        for held in old.held:
            self._changing(held)
            held.message.task_id = task.shell.id
        task.held = [*old.held, *task.held]
        task.number()
        del self._tasks[old.shell.id]
        for other in self._tasks.values():
            if other.shell.dependencies.parent_task_id == old.shell.id:
                other.shell.dependencies.parent_task_id = task.shell.id

    def _add(self, action: Any) -> None:
        self._add_to(self._task(action.task_id), action.messages)

    def _add_to(self, task: _Task, messages: Iterable[Any]) -> None:
        length, held = len(task.held), [_Held(message, self._undo.transaction) for message in messages]
        older = {item.message.id: task.numbered.get(item.message.id) for item in held}
        task.held += held
        task.numbered.update((item.message.id, item) for item in held)

        def undo() -> None:
            del task.held[length:]
            for message_id, item in older.items():
                if item is None:
                    del task.numbered[message_id]
                else:
                    task.numbered[message_id] = item

        self._undo.note(undo)

    def _update(self, action: Any) -> None:
        task = self._task(action.task_id)
        held = task.numbered.get(action.message.id)
        if held is None:
            self._add_to(task, (action.message,))
            return
        self._changing(held)
        message = held.settled()
        for path in action.mask.paths:
            update(message, action.message, path)

    def _append(self, action: Any) -> None:
        task = self._tasks.get(action.task_id)
        held = task.numbered.get(action.message.id) if task is not None else None
        if held is None:
            return
        for path in action.mask.paths:
            if text := text_at(action.message, path):
                texts = held.pieces.setdefault(path, [])
                if held.saved_in < self._undo.transaction:
                    self._undo.note(_shortened(texts, len(texts)))
                texts.append(text)

    def _begin(self, action: Any) -> None:
        self._undo.begin()

    def _commit(self, action: Any) -> None:
        self._undo.commit()

    def _roll_back(self, action: Any) -> None:
        self._undo.roll_back()

    def _set(self, action: Any) -> None:
        task = self._task(action.task_id)
        before, task.shell = task.shell, _copy(task.shell)
        self._undo.note(lambda: setattr(task, "shell", before), before.ByteSize())
        for field, value in action.ListFields():
            if field.name != "task_id":
                setattr(task.shell, field.name, value)

    def _move(self, action: Any) -> None:
        """Messages from the first to the last go to a new task; others take their place."""
        source = self._task(action.source_task_id)
        ids = [held.message.id for held in source.held]
        if action.first_message_id not in ids or action.last_message_id not in ids:
            return
        self._save_all()
        first, last = ids.index(action.first_message_id), ids.index(action.last_message_id) + 1
        now = self._undo.transaction
        self._tasks[action.new_task.id] = task = _Task(action.new_task, now)
        task.held += source.held[first:last]
        task.number()
        replacements = [_Held(message, now) for message in action.replacement_messages]
        source.held = [*source.held[:first], *replacements, *source.held[last:]]
        source.number()


def _empty(task_id: str) -> Any:
    task = new("Task")
    task.id = task_id
    return task


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _shortened(texts: list[str], length: int) -> Callable[[], None]:
    def undo() -> None:
        del texts[length:]

    return undo


def _is(message: Any, kind: str) -> bool:
    return bool(message.HasField(kind))


_ACTIONS: dict[str, Callable[[Tasks, Any], None]] = {
    "create_task": Tasks._create,
    "add_messages_to_task": Tasks._add,
    "update_task_message": Tasks._update,
    "append_to_message_content": Tasks._append,
    "begin_transaction": Tasks._begin,
    "commit_transaction": Tasks._commit,
    "rollback_transaction": Tasks._roll_back,
    "update_task_summary": Tasks._set,
    "update_task_description": Tasks._set,
    "update_task_server_data": Tasks._set,
    "move_messages_to_new_task": Tasks._move,
}
