"""The server's tasks, as a client of Warp's keeps them: what was sent, and what the stream's actions made of it.

The official client sends them back with the next request, opaque data included; the strategy `replay` does the same.
Whoever keeps state feeds the upstream's bytes to this beside the decoder and stores what `tasks` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.dialects.warp.fields import kept, restore, text_of
from toolglot.dialects.warp.frames import read_event
from toolglot.dialects.warp.masks import set_text, text_at, update
from toolglot.dialects.warp.queries import SYSTEM_PROMPT
from toolglot.dialects.warp.transcript import identity
from toolglot.errors import DecodeError
from toolglot.wire.sse import SseReader


class Tasks:
    """`sent` is the request as it went to the server. What cannot be read changes nothing: the decoder will tell."""

    def __init__(self, sent: bytes) -> None:
        request = parse("Request", sent)
        self.conversation_id: str = request.metadata.conversation_id
        self._inputs = request.input.user_inputs.inputs
        self._tasks: dict[str, Any] = {}
        for task in request.task_context.tasks:
            self._tasks[task.id] = task
        self._known = {message.id for task in self._tasks.values() for message in task.messages}
        self._sse = SseReader()
        self._pieces: dict[tuple[str, str, str], list[str]] = {}
        self._saved: list[list[bytes]] = []
        self.finished = False
        """The server has said that it is done; before that, nothing is worth keeping."""

    def feed(self, data: bytes) -> None:
        try:
            for _, frame in self._sse.feed(data):
                self._event(read_event(frame))
        except DecodeError:
            return

    def tasks(self) -> list[str]:
        """The tasks for the next request, in base64. Inputs that the server has not echoed are part of them."""
        self._settle()
        root = self._root()
        if root is not None:
            self._add_inputs(root)
        return [text_of(serialize(task)) for task in self._tasks.values()]

    def _root(self) -> Any:
        return next((task for task in self._tasks.values() if not task.dependencies.parent_task_id), None)

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
        later = [new("Message") for _ in root.messages[place:]]
        for copy, message in zip(later, root.messages[place:], strict=True):
            copy.CopyFrom(message)
        del root.messages[place:]
        root.messages.extend((*missing, *later))
        self._inputs = ()

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

    def _task(self, task_id: str) -> Any:
        if task_id not in self._tasks:
            self._tasks[task_id] = new("Task")
            self._tasks[task_id].id = task_id
        return self._tasks[task_id]

    def _create(self, action: Any) -> None:
        task = new("Task")
        task.CopyFrom(action.task)
        if not task.dependencies.parent_task_id and (old := self._root()) is not None and old.id != task.id:
            self._replace_root(old, task)
        self._tasks[task.id] = task

    def _replace_root(self, old: Any, task: Any) -> None:
        """The server's root takes the place of the client's own, as in Warp's client, behind what was said before."""
        self._settle()
        own = [serialize(message) for message in task.messages]
        del task.messages[:]
        task.messages.extend(old.messages)
        for message in task.messages:
            message.task_id = task.id
        task.messages.extend(parse("Message", data) for data in own)
        del self._tasks[old.id]
        for other in self._tasks.values():
            if other.dependencies.parent_task_id == old.id:
                other.dependencies.parent_task_id = task.id

    def _add(self, action: Any) -> None:
        self._task(action.task_id).messages.extend(action.messages)

    def _find(self, action: Any) -> Any:
        messages = self._task(action.task_id).messages
        return next((message for message in reversed(messages) if message.id == action.message.id), None)

    def _update(self, action: Any) -> None:
        message = self._find(action)
        if message is None:
            self._task(action.task_id).messages.add().CopyFrom(action.message)
            return
        self._settle()
        for path in action.mask.paths:
            update(message, action.message, path)

    def _append(self, action: Any) -> None:
        for path in action.mask.paths:
            if text := text_at(action.message, path):
                self._pieces.setdefault((action.task_id, action.message.id, path), []).append(text)

    def _settle(self) -> None:
        """Puts what was appended where it belongs, each text once."""
        for (task_id, message_id, path), pieces in self._pieces.items():
            for message in self._task(task_id).messages:
                if message.id == message_id:
                    set_text(message, path, (text_at(message, path) or "") + "".join(pieces))
        self._pieces.clear()

    def _begin(self, action: Any) -> None:
        self._settle()
        self._saved.append([serialize(task) for task in self._tasks.values()])

    def _commit(self, action: Any) -> None:
        del self._saved[-1:]

    def _roll_back(self, action: Any) -> None:
        if self._saved:
            self._pieces.clear()
            tasks = [parse("Task", data) for data in self._saved.pop()]
            self._tasks = {task.id: task for task in tasks}

    def _set(self, action: Any) -> None:
        task = self._task(action.task_id)
        for field, value in action.ListFields():
            if field.name != "task_id":
                setattr(task, field.name, value)

    def _move(self, action: Any) -> None:
        """Messages from the first to the last go to a new task; others take their place."""
        self._settle()
        source = self._task(action.source_task_id)
        ids = [message.id for message in source.messages]
        if action.first_message_id not in ids or action.last_message_id not in ids:
            return
        first, last = ids.index(action.first_message_id), ids.index(action.last_message_id) + 1
        whole = [serialize(message) for message in source.messages]
        self._tasks[action.new_task.id] = task = new("Task")
        task.CopyFrom(action.new_task)
        task.messages.extend(parse("Message", data) for data in whole[first:last])
        del source.messages[:]
        source.messages.extend(parse("Message", data) for data in whole[:first])
        source.messages.extend(action.replacement_messages)
        source.messages.extend(parse("Message", data) for data in whole[last:])


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
