"""What the server has been told before it answers: the tasks of the request, as they were sent."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.history import KEPT_TASKS, TASKS, write_history
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.request import WIRE
from toolglot.ir import Request, native_of
from toolglot.receipt import Receipt


class RequestTasks:
    """Without a request, nothing has been told. Tasks are made only when something is asked about them."""

    def __init__(self, request: Request | None = None) -> None:
        self._request = request

    @property
    def is_from_warp_client(self) -> bool:
        """Did one of Warp's clients send it, which does everything that the server says itself?"""
        return self._request is not None and WIRE in native_of(self._request, NAME)

    @cached_property
    def _tasks(self) -> list[Any]:
        wire = new("Request")
        if self._request is not None:
            write_history(self._request, wire, Receipt())
        return list(wire.task_context.tasks)

    @cached_property
    def _subtasks(self) -> frozenset[str]:
        own = native_of(self._request, NAME) if self._request is not None else {}
        if not own.get(TASKS) and not own.get(KEPT_TASKS):
            return frozenset()  # a task that is made from a history is the conversation itself
        return frozenset(task.id for task in self._tasks if task.dependencies.parent_task_id)

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(task.id for task in self._tasks if not task.dependencies.parent_task_id)

    @cached_property
    def _messages(self) -> dict[str, Any]:
        return {message.id: message for task in self._tasks for message in task.messages if message.id}

    def is_subtask(self, task_id: str) -> bool:
        """Is this a task inside the conversation, and not the conversation itself?"""
        return task_id in self._subtasks

    def is_root(self, task_id: str) -> bool:
        """Is this the conversation itself?"""
        return task_id in self._roots

    def is_unchanged(self, message: Any) -> bool:
        """Did the message of this id say the same when it was sent?"""
        sent = self._messages.get(message.id)
        kind = message.WhichOneof("message")
        if sent is None or sent.WhichOneof("message") != kind:
            return False
        return kind is None or bool(getattr(sent, kind) == getattr(message, kind))

    def has_message(self, message_id: str) -> bool:
        """Is this a message of an earlier turn?"""
        return message_id in self._messages
