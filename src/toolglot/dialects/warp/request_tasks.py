"""The tasks of a request in the form that was sent to the server."""

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
    """The tasks of a request; empty without a request. They are built on first use."""

    def __init__(self, request: Request | None = None) -> None:
        self._request = request

    @property
    def is_from_warp_client(self) -> bool:
        """Whether a Warp client sent the request. Such a client applies all of the server's actions itself."""
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
            return frozenset()  # a task built from a history is the conversation itself
        return frozenset(task.id for task in self._tasks if task.dependencies.parent_task_id)

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(task.id for task in self._tasks if not task.dependencies.parent_task_id)

    @cached_property
    def _messages(self) -> dict[str, Any]:
        return {message.id: message for task in self._tasks for message in task.messages if message.id}

    def is_subtask(self, task_id: str) -> bool:
        """Return whether this is a subtask, not the conversation itself."""
        return task_id in self._subtasks

    def is_root(self, task_id: str) -> bool:
        """Return whether this is the task of the conversation itself."""
        return task_id in self._roots

    def is_unchanged(self, message: Any) -> bool:
        """Return whether this message has the same content as when it was sent."""
        sent = self._messages.get(message.id)
        kind = message.WhichOneof("message")
        if sent is None or sent.WhichOneof("message") != kind:
            return False
        return kind is None or bool(getattr(sent, kind) == getattr(message, kind))

    def has_message(self, message_id: str) -> bool:
        """Return whether this message was part of the request, and so of an earlier turn."""
        return message_id in self._messages
