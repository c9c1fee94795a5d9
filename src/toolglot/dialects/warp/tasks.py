"""The server's tasks, as a Warp client keeps them: the tasks of the request with the stream's actions applied.

The official client sends them back with the next request, opaque data included; the strategy `replay` does the same.
The code that stores state feeds the upstream's bytes to this class as well as to the decoder, and stores `tasks()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.dialects.warp.fields import remaining_fields, restore, to_base64
from toolglot.dialects.warp.frames import read_event
from toolglot.dialects.warp.masks import text_at, update_field
from toolglot.dialects.warp.queries import SYSTEM_PROMPT
from toolglot.dialects.warp.task_state import TaskMessage, TaskState, shell_of
from toolglot.dialects.warp.transcript import derive_id
from toolglot.dialects.warp.undo import UndoLog
from toolglot.errors import DecodeError
from toolglot.wire.sse import SseReader

_STEP_COST = 64
"""The cost of visiting one task or message, in bytes of the undo log's copy limit."""


class Tasks:
    """The tasks of a stream. `sent` is the request as it went to the server. Unreadable data sets `problem`; the
    decoder reports the error."""

    def __init__(self, sent: bytes) -> None:
        request = parse("Request", sent)
        self.conversation_id: str = request.metadata.conversation_id
        self._inputs = request.input.user_inputs.inputs
        self._images = request.input.context.images
        self._tasks = {task.id: TaskState(task) for task in request.task_context.tasks}
        self._known = {message.id for task in request.task_context.tasks for message in task.messages}
        self._sse = SseReader()
        self._undo = UndoLog()
        self.problem: str | None = None
        """The reason why the tasks cannot be stored."""
        self.finished = False
        """True if the server has sent `finished`. The tasks are worth storing only after that."""

    def feed(self, data: bytes) -> None:
        if self.problem is not None:
            return
        try:
            for _, frame in self._sse.feed(data):
                if frame.strip() not in (b"", b"[DONE]"):
                    self._apply_event(read_event(frame))
        except DecodeError as error:
            self.problem = str(error)

    def tasks(self) -> list[str]:
        """Return the tasks for the next request, in base64. They include inputs that the server has not echoed."""
        tasks = [task.whole() for task in self._tasks.values()]
        root = next((task for task in tasks if not task.dependencies.parent_task_id), None)
        if root is not None:
            self._add_inputs(root)
        return [to_base64(serialize(task)) for task in tasks]

    def _root(self) -> TaskState | None:
        return next((task for task in self._tasks.values() if not task.shell.dependencies.parent_task_id), None)

    def _add_inputs(self, root: Any) -> None:
        """Add the inputs before the answer to them, unless the server has added them itself."""
        place = next((at for at, message in enumerate(root.messages) if message.id not in self._known), None)
        if place is None:
            return
        echoed = {
            message.tool_call_result.tool_call_id for message in root.messages if _has(message, "tool_call_result")
        }
        asks = any(_has(message, "user_query") for message in root.messages[place:])
        missing = [
            message
            for number, item in enumerate(self._inputs)
            if (message := self._input_as_message(item, number, root.id)) is not None
            and not (asks if _has(message, "user_query") else message.tool_call_result.tool_call_id in echoed)
        ]
        # A request has images next to the inputs; a task has them in the query that they belong to.
        for query in [message for message in missing if _has(message, "user_query")][-1:]:
            query.user_query.context.images.extend(self._images)
        later = [new("Message") for _ in root.messages[place:]]
        for copy, message in zip(later, root.messages[place:], strict=True):
            copy.CopyFrom(message)
        del root.messages[place:]
        root.messages.extend((*missing, *later))

    def _input_as_message(self, item: Any, number: int, task_id: str) -> Any:
        """Convert an input to a message of a task: the same fields under other numbers."""
        kind = item.WhichOneof("input")
        if kind not in ("user_query", "tool_call_result"):
            return None
        message = new("Message")
        message.id, message.task_id = derive_id(task_id, "input", len(self._known), number), task_id
        restore(message, remaining_fields(item, {kind: {}}))
        if kind == "user_query":
            message.user_query.referenced_attachments.pop(SYSTEM_PROMPT, None)
            if not message.user_query.query and len(message.user_query.ListFields()) <= 1:
                return None
        return message

    # Actions

    def _apply_event(self, event: Any) -> None:
        if event.HasField("init") and event.init.conversation_id:
            self.conversation_id = event.init.conversation_id
        self.finished = self.finished or event.WhichOneof("type") == "finished"
        for action in event.client_actions.actions:
            kind = action.WhichOneof("action")
            if kind in _ACTIONS:
                _ACTIONS[kind](self, getattr(action, kind))

    def _get_task(self, task_id: str) -> TaskState:
        if task_id not in self._tasks:
            self._put_task(task_id, TaskState(_empty(task_id)))
        return self._tasks[task_id]

    def _put_task(self, task_id: str, task: TaskState) -> None:
        older = self._tasks.get(task_id)
        self._tasks[task_id] = task

        def undo() -> None:
            if older is None:
                del self._tasks[task_id]
            else:
                self._tasks[task_id] = older

        self._undo.record(undo)

    def _save_before_change(self, held: TaskMessage) -> None:
        now = self._undo.transaction
        if held.saved_in < now:
            size = held.message.ByteSize()
            self._undo.record(held.snapshot(now), size)

    def _create(self, action: Any) -> None:
        """Create a task. An existing task gets the new fields and keeps its messages."""
        task_id = action.task.id
        if task_id in self._tasks:
            self._exchange_shell(self._tasks[task_id], shell_of(action.task))
        elif not action.task.dependencies.parent_task_id and (old := self._root()) is not None:
            self._replace_root(old, shell_of(action.task))
        else:
            self._put_task(task_id, TaskState(shell_of(action.task)))
        self._add_to(self._tasks[task_id], action.task.messages)

    def _exchange_shell(self, task: TaskState, shell: Any) -> None:
        before, task.shell = task.shell, shell
        self._undo.record(lambda: setattr(task, "shell", before), before.ByteSize())

    def _replace_root(self, task: TaskState, shell: Any) -> None:
        """Replace the client's root task by the server's, as Warp's client does. It keeps the earlier messages."""
        old, tasks = task.shell.id, self._tasks
        self._undo.charge(_STEP_COST * len(tasks))
        for held in task.messages:
            self._undo.charge(_STEP_COST)
            self._save_before_change(held)
            held.message.task_id = shell.id
        self._exchange_shell(task, shell)
        self._tasks = {name: other for name, other in tasks.items() if name != old} | {shell.id: task}
        self._undo.record(lambda: setattr(self, "_tasks", tasks))
        for other in self._tasks.values():
            if other.shell.dependencies.parent_task_id == old:
                inner = _copy(other.shell)
                inner.dependencies.parent_task_id = shell.id
                self._exchange_shell(other, inner)

    def _add(self, action: Any) -> None:
        self._add_to(self._get_task(action.task_id), action.messages)

    def _add_to(self, task: TaskState, messages: Iterable[Any]) -> None:
        """Append messages. A repeated message of the request keeps its position and gets the new content."""
        for message in messages:
            held = task.by_id.get(message.id) if message.id in self._known else None
            if held is None:
                self._undo.record(task.append(TaskMessage(message, self._undo.transaction)))
            else:
                self._save_before_change(held)
                held.pieces = {}
                held.message.CopyFrom(message)

    def _update(self, action: Any) -> None:
        task = self._get_task(action.task_id)
        held = task.by_id.get(action.message.id)
        if held is None:
            self._add_to(task, (action.message,))
            return
        self._save_before_change(held)
        held.write_pieces(action.mask.paths)
        for path in action.mask.paths:
            update_field(held.message, action.message, path)
        held.drop_lost_pieces()

    def _append(self, action: Any) -> None:
        task = self._tasks.get(action.task_id)
        held = task.by_id.get(action.message.id) if task is not None else None
        if held is None:
            return
        for path in action.mask.paths:
            if text := text_at(action.message, path):
                texts = held.pieces.setdefault(path, [])
                if held.saved_in < self._undo.transaction:
                    self._undo.record(_make_truncate(texts, len(texts)))
                texts.append(text)

    def _begin(self, action: Any) -> None:
        self._undo.begin()

    def _commit(self, action: Any) -> None:
        self._undo.commit()

    def _roll_back(self, action: Any) -> None:
        self._undo.roll_back()

    def _set_task_fields(self, action: Any) -> None:
        task = self._get_task(action.task_id)
        if self._undo.transaction:
            self._exchange_shell(task, _copy(task.shell))
        for field, value in action.ListFields():
            if field.name != "task_id":
                setattr(task.shell, field.name, value)

    def _move(self, action: Any) -> None:
        """Move a run of messages to a new task, and add the replacement messages in its place."""
        source = self._get_task(action.source_task_id)
        run = source.run(action.first_message_id, action.last_message_id)
        if run is None:
            self._undo.charge(_STEP_COST * len(source.by_id))
            return
        self._undo.charge(_STEP_COST * len(run))
        now = self._undo.transaction
        task = TaskState(action.new_task, now)
        self._put_task(action.new_task.id, task)
        before, after = source.unlink(run[0], run[-1])
        self._undo.record(partial(source.link, run[0], run[-1], before, after))
        task.append_run(run)
        for held in run:
            if source.by_id.get(held.message.id) is held:
                del source.by_id[held.message.id]
                self._undo.record(partial(source.by_id.__setitem__, held.message.id, held))
        for message in action.replacement_messages:
            held = TaskMessage(message, now)
            self._undo.record(source.add(held, before, after))
            before = held


def _empty(task_id: str) -> Any:
    task = new("Task")
    task.id = task_id
    return task


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _make_truncate(texts: list[str], length: int) -> Callable[[], None]:
    def undo() -> None:
        del texts[length:]

    return undo


def _has(message: Any, kind: str) -> bool:
    return bool(message.HasField(kind))


_ACTIONS: dict[str, Callable[[Tasks, Any], None]] = {
    "create_task": Tasks._create,
    "add_messages_to_task": Tasks._add,
    "update_task_message": Tasks._update,
    "append_to_message_content": Tasks._append,
    "begin_transaction": Tasks._begin,
    "commit_transaction": Tasks._commit,
    "rollback_transaction": Tasks._roll_back,
    "update_task_summary": Tasks._set_task_fields,
    "update_task_description": Tasks._set_task_fields,
    "update_task_server_data": Tasks._set_task_fields,
    "move_messages_to_new_task": Tasks._move,
}
