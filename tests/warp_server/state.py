"""What a stream of events adds up to, as Warp's own client adds it up."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from tests.warp_server.messages import Tree


class StateError(ValueError):
    """Warp's own client would refuse this event."""


class Conversation:
    """`init`, `finished` and the tasks by their ids, each as its tree, messages in order."""

    def __init__(self, tasks: Iterable[Tree] = ()) -> None:
        self.init: Tree | None = None
        self.finished: Tree | None = None
        self.tasks: dict[str, Tree] = {task.get("id", ""): copy.deepcopy(task) for task in tasks}
        self._saved: list[dict[str, Tree]] = []

    def add(self, event: Tree) -> None:
        if "init" in event:
            self.init = event["init"]
        if "finished" in event:
            self.finished = event["finished"]
        for action in event.get("client_actions", {}).get("actions", ()):
            for name, value in action.items():
                if name in _ACTIONS:
                    _ACTIONS[name](self, copy.deepcopy(value))

    @property
    def root(self) -> Tree:
        """The task that no other one has begun."""
        return next(task for task in self.tasks.values() if not _parent(task))

    def messages(self, kind: str) -> list[Any]:
        """What the root task's messages of this kind hold."""
        return [message[kind] for message in self.root.get("messages", ()) if kind in message]

    def tree(self) -> Tree:
        return {"init": self.init, "tasks": list(self.tasks.values()), "finished": self.finished}

    # Actions

    def _create(self, value: Tree) -> None:
        task = value.get("task", {})
        self.tasks[task.get("id", "")] = task

    def _add_messages(self, value: Tree) -> None:
        self._task(value).setdefault("messages", []).extend(value.get("messages", []))

    def _update(self, value: Tree) -> None:
        patch = value.get("message", {})
        messages = self._task(value).setdefault("messages", [])
        old = next((message for message in messages if message.get("id") == patch.get("id")), None)
        if old is None:
            messages.append(patch)
            return
        for path in value.get("mask", {}).get("paths", ()):
            _replace(old, patch, path.split("."))

    def _append(self, value: Tree) -> None:
        patch = value.get("message", {})
        messages = self._task(value).get("messages", [])
        old = next((message for message in messages if message.get("id") == patch.get("id")), None)
        if old is None:
            raise StateError(f"there is no message {patch.get('id')!r} to append to")
        for path in value.get("mask", {}).get("paths", ()):
            _extend(old, patch, path.split("."))

    def _begin(self, value: Tree) -> None:
        self._saved.append(copy.deepcopy(self.tasks))

    def _commit(self, value: Tree) -> None:
        self._saved.pop()

    def _rollback(self, value: Tree) -> None:
        self.tasks = self._saved.pop()

    def _set(self, value: Tree) -> None:
        task = self._task(value)
        task.update({key: item for key, item in value.items() if key != "task_id"})

    def _task(self, value: Tree) -> Tree:
        return self.tasks.setdefault(value.get("task_id", ""), {"id": value.get("task_id", "")})


def _parent(task: Tree) -> str:
    return str(task.get("dependencies", {}).get("parent_task_id", ""))


def _replace(old: Tree, patch: Tree, path: list[str]) -> None:
    *parents, leaf = path
    for name in parents:
        old, patch = old.setdefault(name, {}), patch.get(name, {})
    if leaf in patch:
        old[leaf] = patch[leaf]
    else:
        old.pop(leaf, None)


def _extend(old: Tree, patch: Tree, path: list[str]) -> None:
    *parents, leaf = path
    for name in parents:
        old, patch = old.setdefault(name, {}), patch.get(name, {})
    before, more = old.get(leaf, ""), patch.get(leaf, "")
    if not isinstance(before, str) or not isinstance(more, str):
        raise StateError(f"{'.'.join(path)} is no text")
    old[leaf] = before + more


_ACTIONS = {
    "create_task": Conversation._create,
    "add_messages_to_task": Conversation._add_messages,
    "update_task_message": Conversation._update,
    "append_to_message_content": Conversation._append,
    "begin_transaction": Conversation._begin,
    "commit_transaction": Conversation._commit,
    "rollback_transaction": Conversation._rollback,
    "update_task_summary": Conversation._set,
    "update_task_description": Conversation._set,
    "update_task_server_data": Conversation._set,
}


def added_up(events: Iterable[Tree], tasks: Iterable[Tree] = ()) -> Conversation:
    conversation = Conversation(tasks)
    for event in events:
        conversation.add(event)
    return conversation
