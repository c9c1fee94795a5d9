"""Three strategies to send a conversation's history to Warp, as pure functions. The native data of the request selects
one under `history`; the code that stores state sets it.

- `native`: a task built from the client's own history. Needs no stored state.
- `replay`: the tasks that Warp's server sent, opaque data included. `tasks` has them (base64), and they cover the first
  `covered` messages. Later messages are written as in `native`, under the ids of the server's calls
  (`call_matching.py`).
- `text`: one query that contains the whole conversation as text (`text_history.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolglot.dialects.warp.builtin_results import cancel_unanswered, convert_builtin_results
from toolglot.dialects.warp.call_matching import match_results
from toolglot.dialects.warp.descriptors import new, parse
from toolglot.dialects.warp.fields import from_base64
from toolglot.dialects.warp.media import encode_media
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.queries import attach_system
from toolglot.dialects.warp.text_history import render_history
from toolglot.dialects.warp.transcript import SYSTEM_ROLES, TranscriptWriter, derive_id, find_first_input
from toolglot.errors import DecodeError
from toolglot.ir import Message, Request, Text, native_of, replace
from toolglot.receipt import Receipt

HISTORY = "history"
TASKS, COVERED = "tasks", "covered"
KEPT_TASKS, ROOT = "$tasks", "$root"
"""The tasks of a request from a Warp client, without the messages of the root task, and the index of the root task. The
root task is the conversation."""

Strategy = Callable[[Request, Any, Receipt], None]
"""Writes the tasks and the input of a request."""


def write_native(request: Request, wire: Any, receipt: Receipt) -> None:
    start = find_first_input(request.messages)
    own = native_of(request, NAME)
    tasks = wire.task_context.tasks
    for index, data in enumerate(own.get(KEPT_TASKS, ())):
        restore_task(tasks.add(), data, f"{KEPT_TASKS}[{index}]")
    root = own.get(ROOT)
    writer = TranscriptWriter(wire, receipt)
    if isinstance(root, int) and 0 <= root < len(tasks):
        writer.write_task(tasks[root], request.messages[:start], 0)
    elif start:
        task = tasks.add(id=derive_id("task", _first_text(request)))
        writer.write_task(task, request.messages[:start], 0)
    writer.write_inputs(request.messages[start:], start)
    writer.finish()


def restore_task(task: Any, data: Any, where: str) -> None:
    task.CopyFrom(parse("Task", from_base64(data, where), where))


def _first_text(request: Request) -> str:
    """The first text of a conversation. The id of its task is derived from it, so that it is the same in every turn."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return texts[0] if texts else ""


def write_replay(request: Request, wire: Any, receipt: Receipt) -> None:
    own = native_of(request, NAME)
    covered = own.get(COVERED, 0)
    root, new_messages = _restore_tasks(own.get(TASKS, ()), request.messages, covered, wire.task_context.tasks)
    writer = TranscriptWriter(wire, receipt)
    for number, message in enumerate(request.messages[:covered]):
        if message.role in SYSTEM_ROLES:
            writer.add_system(message, f"messages[{number}]")
    start = find_first_input(new_messages)
    writer.write_task(root, new_messages[:start], covered)
    writer.write_inputs(new_messages[start:], covered + start)
    inputs = wire.input.user_inputs.inputs
    convert_builtin_results(root.messages, inputs, receipt)
    cancel_unanswered(root, inputs)
    writer.finish()


class _TasksMismatchError(Exception):
    """The stored tasks do not match the beginning of this conversation."""


def _restore_tasks(given: Any, messages: Sequence[Message], covered: Any, tasks: Any) -> tuple[Any, Sequence[Message]]:
    """Add the stored tasks to `tasks`. Returns the root task and the messages that it does not cover."""
    for index, data in enumerate(given):
        restore_task(tasks.add(), data, f"{TASKS}[{index}]")
    root = next((task for task in tasks if not task.dependencies.parent_task_id), None)
    if root is None or not isinstance(covered, int) or not 0 <= covered <= len(messages):
        raise _TasksMismatchError
    new_messages = match_results(messages, covered, root)
    if new_messages is None or (covered and not root.messages):
        raise _TasksMismatchError
    return root, new_messages


def can_continue(given: Any, messages: Sequence[Message], covered: int) -> bool:
    """Can a conversation continue from these tasks, which cover its first `covered` messages?

    Raises:
        DecodeError: one of them is not a task.
    """
    try:
        _restore_tasks(given, messages, covered, new("TaskContext").tasks)
    except _TasksMismatchError:
        return False
    return True


def _without_tasks(request: Request, receipt: Receipt) -> Request:
    """Remove the stored tasks and the conversation id: they belong to another conversation."""
    own = native_of(request, NAME)
    if own.get(TASKS):
        receipt.note("messages", "history", "the stored conversation does not match this one: it is sent in full")
    rest = {key: value for key, value in own.items() if key not in (TASKS, COVERED, "metadata")}
    metadata = own.get("metadata")
    if isinstance(metadata, Mapping):
        metadata = {key: value for key, value in metadata.items() if key != "conversation_id"}
    if metadata:
        rest["metadata"] = metadata
    return replace(request, native={**request.native, NAME: rest})


def write_text(request: Request, wire: Any, receipt: Receipt) -> None:
    rendered = render_history(request, receipt)
    inputs = wire.input.user_inputs.inputs
    inputs.add().user_query.query = rendered.query
    for block in rendered.images:
        encode_media(block, wire.input.context.images.add(), "messages", receipt)
    if rendered.system:
        attach_system(inputs, rendered.system)


STRATEGIES: dict[str, Strategy] = {"native": write_native, "replay": write_replay, "text": write_text}


def write_history(request: Request, wire: Any, receipt: Receipt) -> Request:
    """Write tasks and input with the strategy that the request selects.

    Returns the request, without its stored tasks if they do not match the conversation.

    Raises:
        DecodeError: the strategy is unknown.
    """
    name = native_of(request, NAME).get(HISTORY, "native")
    if name not in STRATEGIES:
        raise DecodeError(HISTORY, f"there is no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    try:
        STRATEGIES[name](request, wire, receipt)
    except _TasksMismatchError:
        del wire.task_context.tasks[:]
        request = _without_tasks(request, receipt)
        write_native(request, wire, receipt)
    return request
