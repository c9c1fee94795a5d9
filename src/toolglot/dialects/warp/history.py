"""The three ways to tell Warp what was said before, as pure functions. Which one is meant stands in the native data of
the request, under `history`; whoever keeps state sets it.

- `native`: a task made from the client's own history. Nothing has to be kept anywhere.
- `replay`: the tasks that Warp's server sent, opaque data included, which `tasks` holds (base64) and which cover the
  first `covered` messages; what comes after them is said as it would be in `native`, under the ids of their calls
  (`matching.py`).
- `text`: one query that tells the whole conversation in words (`narrate.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolglot.dialects.warp.answers import answer_builtins, cancel_unanswered
from toolglot.dialects.warp.descriptors import new, parse
from toolglot.dialects.warp.fields import bytes_of
from toolglot.dialects.warp.matching import adopt
from toolglot.dialects.warp.media import encode_media
from toolglot.dialects.warp.narrate import narrate
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.queries import attach_system
from toolglot.dialects.warp.transcript import SYSTEM_ROLES, Writer, first_input, identity
from toolglot.errors import DecodeError
from toolglot.ir import Message, Request, Text, native_of, replace
from toolglot.receipt import Receipt

HISTORY = "history"
TASKS, COVERED = "tasks", "covered"
KEPT_TASKS, ROOT = "$tasks", "$root"
"""The tasks as they came in a request, without the messages of the one that is the conversation; and which that is."""

Strategy = Callable[[Request, Any, Receipt], None]
"""Writes the tasks and the input of a request."""


def native(request: Request, wire: Any, receipt: Receipt) -> None:
    start = first_input(request.messages)
    own = native_of(request, NAME)
    tasks = wire.task_context.tasks
    for index, data in enumerate(own.get(KEPT_TASKS, ())):
        restore_task(tasks.add(), data, f"{KEPT_TASKS}[{index}]")
    root = own.get(ROOT)
    writer = Writer(wire, receipt)
    if isinstance(root, int) and 0 <= root < len(tasks):
        writer.task(tasks[root], request.messages[:start], 0)
    elif start:
        task = tasks.add(id=identity("task", _beginning(request)))
        writer.task(task, request.messages[:start], 0)
    writer.inputs(request.messages[start:], start)
    writer.finish()


def restore_task(task: Any, data: Any, where: str) -> None:
    task.CopyFrom(parse("Task", bytes_of(data, where), where))


def _beginning(request: Request) -> str:
    """What a conversation begins with: its task is named after it, in every turn."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return texts[0] if texts else ""


def replay(request: Request, wire: Any, receipt: Receipt) -> None:
    own = native_of(request, NAME)
    covered = own.get(COVERED, 0)
    root, behind = _going_on(own.get(TASKS, ()), request.messages, covered, wire.task_context.tasks)
    writer = Writer(wire, receipt)
    for number, message in enumerate(request.messages[:covered]):
        if message.role in SYSTEM_ROLES:
            writer.system(message, f"messages[{number}]")
    start = first_input(behind)
    writer.task(root, behind[:start], covered)
    writer.inputs(behind[start:], covered + start)
    inputs = wire.input.user_inputs.inputs
    answer_builtins(root.messages, inputs, receipt)
    cancel_unanswered(root, inputs)
    writer.finish()


class _UnfitError(Exception):
    """These tasks do not tell the beginning of this conversation."""


def _going_on(given: Any, messages: Sequence[Message], covered: Any, tasks: Any) -> tuple[Any, Sequence[Message]]:
    """Puts these tasks where tasks are sent, and returns the one that is the conversation, and what comes behind it."""
    for index, data in enumerate(given):
        restore_task(tasks.add(), data, f"{TASKS}[{index}]")
    root = next((task for task in tasks if not task.dependencies.parent_task_id), None)
    if root is None or not isinstance(covered, int) or not 0 <= covered <= len(messages):
        raise _UnfitError
    behind = adopt(messages, covered, root)
    if behind is None or (covered and not root.messages):
        raise _UnfitError
    return root, behind


def goes_on(given: Any, messages: Sequence[Message], covered: int) -> bool:
    """Can a conversation whose first `covered` messages these tasks tell be gone on with by sending them back?

    Raises:
        DecodeError: one of them is no task.
    """
    try:
        _going_on(given, messages, covered, new("TaskContext").tasks)
    except _UnfitError:
        return False
    return True


def _anew(request: Request, receipt: Receipt) -> Request:
    """The request without the tasks, which are not those of its conversation: for the server it is another one."""
    own = native_of(request, NAME)
    if own.get(TASKS):
        receipt.note("messages", "history", "what is kept is not what this conversation goes on from: it is told anew")
    rest = {key: value for key, value in own.items() if key not in (TASKS, COVERED, "metadata")}
    metadata = own.get("metadata")
    if isinstance(metadata, Mapping):
        metadata = {key: value for key, value in metadata.items() if key != "conversation_id"}
    if metadata:
        rest["metadata"] = metadata
    return replace(request, native={**request.native, NAME: rest})


def text(request: Request, wire: Any, receipt: Receipt) -> None:
    story = narrate(request, receipt)
    inputs = wire.input.user_inputs.inputs
    inputs.add().user_query.query = story.query
    for block in story.images:
        encode_media(block, wire.input.context.images.add(), "messages", receipt)
    if story.system:
        attach_system(inputs, story.system)


STRATEGIES: dict[str, Strategy] = {"native": native, "replay": replay, "text": text}


def write_history(request: Request, wire: Any, receipt: Receipt) -> Request:
    """Writes tasks and input as the request's native data says, and returns the request as far as it was not meant for
    tasks that could not be sent.

    Raises:
        DecodeError: there is no such strategy.
    """
    name = native_of(request, NAME).get(HISTORY, "native")
    if name not in STRATEGIES:
        raise DecodeError(HISTORY, f"there is no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    try:
        STRATEGIES[name](request, wire, receipt)
    except _UnfitError:
        del wire.task_context.tasks[:]
        request = _anew(request, receipt)
        native(request, wire, receipt)
    return request
