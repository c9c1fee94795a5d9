"""Events in few words: what a server says, in the order in which a real one says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.warp_server.messages import Tree

CONVERSATION = "7b1f6c1e-0000-4000-8000-000000000001"
REQUEST = "req-1"
ROOT = "task-root"
OPAQUE = "CiQ2ZDFkYmQxNy0wMDAwLTQwMDAtODAwMC0wMDAwMDAwMDAwMDE="
"""What a server puts beside a message for itself alone."""
USAGE: Tree = {"model_id": "auto", "total_input": 40, "output": 30, "input_cache_read": 10}


def init(conversation: str = CONVERSATION, request: str = REQUEST) -> Tree:
    return {"init": {"conversation_id": conversation, "request_id": request}}


def actions(*several: Tree) -> Tree:
    return {"client_actions": {"actions": list(several)}}


def create_task(task: str = ROOT, parent: str = "", *messages: Tree, **more: Any) -> Tree:
    dependencies = {"dependencies": {"parent_task_id": parent}} if parent else {}
    said = {"messages": list(messages)} if messages else {}
    return actions({"create_task": {"task": {"id": task, **dependencies, **said, **more}}})


def add(*messages: Tree, task: str = ROOT) -> Tree:
    return actions({"add_messages_to_task": {"task_id": task, "messages": list(messages)}})


def append(message: Tree, path: str, task: str = ROOT) -> Tree:
    return actions({"append_to_message_content": {"message": message, "mask": {"paths": [path]}, "task_id": task}})


def update(message: Tree, *paths: str, task: str = ROOT) -> Tree:
    return actions({"update_task_message": {"message": message, "mask": {"paths": list(paths)}, "task_id": task}})


def begin() -> Tree:
    return actions({"begin_transaction": {}})


def commit() -> Tree:
    return actions({"commit_transaction": {}})


def rollback() -> Tree:
    return actions({"rollback_transaction": {}})


def finished(reason: str | None = "done", usage: Sequence[Tree] = (USAGE,), **more: Any) -> Tree:
    """The last event; without a reason it means done, too."""
    said = {} if reason is None else {reason: more.pop("why", {})}
    counted = {"token_usage": list(usage)} if usage else {}
    return {"finished": {**said, **counted, **more}}


def message(number: int | str, kind: str, value: Any, task: str = ROOT, **more: Any) -> Tree:
    return {"id": f"m-{number}", "task_id": task, "request_id": REQUEST, kind: value, **more}


def said(number: int | str, text: str, **more: Any) -> Tree:
    return message(number, "agent_output", {"text": text}, **more)


def thought(number: int | str, text: str, **more: Any) -> Tree:
    return message(number, "agent_reasoning", {"reasoning": text}, **more)


def called(number: int | str, call_id: str, name: str, arguments: Any = None, **more: Any) -> Tree:
    """A call of one of the client's tools; without arguments there is no `args` at all."""
    args = {} if arguments is None else {"args": arguments}
    return message(number, "tool_call", {"tool_call_id": call_id, "call_mcp_tool": {"name": name, **args}}, **more)


def asked(number: int | str, query: str, **more: Any) -> Tree:
    return message(number, "user_query", {"query": query}, **more)


def opening(query: str = "Hello") -> list[Tree]:
    """How every answer begins: the task with the server's own call, its event, and the user's words echoed."""
    own_call = message(0, "tool_call", {"tool_call_id": "srv-0", "server": {"payload": "IgA="}})
    return [
        init(),
        create_task(ROOT, "", own_call),
        add(message(1, "server_event", {"payload": "CgIIAQ=="})),
        add(asked(2, query)),
        update({"id": "m-2", "server_message_data": OPAQUE}, "server_message_data"),
    ]


def spoken(*pieces: str, number: int | str = 3, task: str = ROOT) -> list[Tree]:
    """Text as it is streamed: a message with the first piece, and the others appended."""
    first, *others = pieces
    later = [
        append({"id": f"m-{number}", "agent_output": {"text": piece}}, "agent_output.text", task) for piece in others
    ]
    return [add(said(number, first, task=task), task=task), *later]


def reasoned(*pieces: str, number: int | str = "r") -> list[Tree]:
    first, *others = pieces
    path = "agent_reasoning.reasoning"
    later = [append({"id": f"m-{number}", "agent_reasoning": {"reasoning": piece}}, path) for piece in others]
    return [add(thought(number, first)), *later]
