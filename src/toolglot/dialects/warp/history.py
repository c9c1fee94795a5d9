"""The three ways to tell Warp what was said before, as pure functions. Which one is meant stands in the native data of
the request, under `history`; whoever keeps state sets it.

- `native`: a task made from the client's own history. Nothing has to be kept anywhere.
- `replay`: the tasks that Warp's server sent, opaque data included, which `tasks` holds (base64) and which cover the
  first `covered` messages; what comes after them is said as it would be in `native`.
- `text`: one query that tells the whole conversation in words (`narrate.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.dialects.warp.answers import answer_builtins, cancel_unanswered
from toolglot.dialects.warp.descriptors import parse
from toolglot.dialects.warp.fields import bytes_of
from toolglot.dialects.warp.media import encode_media
from toolglot.dialects.warp.narrate import narrate
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.queries import attach_system
from toolglot.dialects.warp.transcript import SYSTEM_ROLES, Writer, first_input, identity
from toolglot.errors import DecodeError
from toolglot.ir import Request, Text, native_of
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
    tasks = wire.task_context.tasks
    for index, data in enumerate(own.get(TASKS, ())):
        restore_task(tasks.add(), data, f"{TASKS}[{index}]")
    covered = own.get(COVERED, 0)
    root = next((task for task in tasks if not task.dependencies.parent_task_id), None)
    if root is None or not isinstance(covered, int) or not 0 <= covered <= len(request.messages):
        del tasks[:]
        native(request, wire, receipt)
        return
    writer = Writer(wire, receipt)
    for number, message in enumerate(request.messages[:covered]):
        if message.role in SYSTEM_ROLES:
            writer.system(message, f"messages[{number}]")
    rest = request.messages[covered:]
    start = first_input(rest)
    writer.task(root, rest[:start], covered)
    writer.inputs(rest[start:], covered + start)
    inputs = wire.input.user_inputs.inputs
    answer_builtins(root.messages, inputs)
    cancel_unanswered(root, inputs)
    writer.finish()


def text(request: Request, wire: Any, receipt: Receipt) -> None:
    story = narrate(request, receipt)
    inputs = wire.input.user_inputs.inputs
    inputs.add().user_query.query = story.query
    for block in story.images:
        encode_media(block, wire.input.context.images.add(), "messages", receipt)
    if story.system:
        attach_system(inputs, story.system)


STRATEGIES: dict[str, Strategy] = {"native": native, "replay": replay, "text": text}


def write_history(request: Request, wire: Any, receipt: Receipt) -> None:
    """Writes tasks and input as the request's native data says.

    Raises:
        DecodeError: there is no such strategy.
    """
    name = native_of(request, NAME).get(HISTORY, "native")
    if name not in STRATEGIES:
        raise DecodeError(HISTORY, f"there is no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    STRATEGIES[name](request, wire, receipt)
