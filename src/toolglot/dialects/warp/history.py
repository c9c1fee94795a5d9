"""Three strategies to send a conversation's history to Warp, as pure functions. The native data of the request selects
one under `history`; the code that stores state sets it.

- `native`: a task built from the client's own history. Needs no stored state.
- `replay`: the tasks that Warp's server sent, opaque data included. `tasks` has them (base64), and they cover the first
  `covered` messages. Later messages are written as in `native`, under the ids of the server's calls
  (`call_matching.py`).
- `text`: one query that contains the whole conversation as text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from toolglot.dialects.warp.blocks import is_call
from toolglot.dialects.warp.builtin_results import cancel_unanswered, convert_builtin_results
from toolglot.dialects.warp.descriptors import new, parse
from toolglot.dialects.warp.fields import from_base64
from toolglot.dialects.warp.media import encode_media
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.queries import attach_system, system_text
from toolglot.dialects.warp.transcript import SYSTEM_ROLES, TranscriptWriter, derive_id, find_first_input
from toolglot.errors import DecodeError
from toolglot.ir import (
    Block,
    Media,
    Message,
    Refusal,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    native_of,
    replace,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.tools.inserted_text import ANALYZE_RESULTS

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
    """Return the first text of a conversation. The id of its task is derived from it, so that it is the same in every
    turn.
    """
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
    """Return whether a conversation can continue from these tasks, which cover its first `covered` messages.

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


def match_results(messages: Sequence[Message], covered: int, task: Any) -> tuple[Message, ...] | None:
    """Return the messages after the first `covered` ones, which this task covers, with results under the task's ids.

    None if a result cannot be matched with exactly one call of the task.
    """
    calls = [block for message in messages[:covered] for block in message.content if isinstance(block, ToolCall)]
    task_calls = [message.tool_call for message in task.messages if is_call(message)]
    id_counts = Counter(call.tool_call_id for call in task_calls)
    ids: dict[str, str | None] = {call.id: None for call in calls}  # None: no id, or an ambiguous one
    for call, own in _pair_calls(calls, task_calls):
        ids[call.id] = own if own and id_counts[own] == 1 else None
    new_messages: list[Message] = []
    for message in messages[covered:]:
        content: list[Block] = []
        for block in message.content:
            if isinstance(block, ToolCall):
                if block.id in id_counts:
                    return None
                ids[block.id] = block.id
            elif isinstance(block, ToolResult) and block.call_id in ids:
                known = ids[block.call_id]
                if known is None:
                    return None
                block = block if known == block.call_id else replace(block, call_id=known)
            content.append(block)
        new_messages.append(replace(message, content=tuple(content)))
    return tuple(new_messages)


def _pair_calls(calls: Sequence[ToolCall], task_calls: Sequence[Any]) -> list[tuple[ToolCall, str]]:
    """Pair calls with the task's ids, from the end back to the first difference."""
    names = {call.name for call in calls}
    seen = [call for call in task_calls if _tool_name(call) in names]
    pairs: list[tuple[ToolCall, str]] = []
    for call, other in zip(reversed(calls), reversed(seen), strict=False):
        if call.name != _tool_name(other):
            break
        pairs.append((call, other.tool_call_id))
    return pairs[::-1]


def _tool_name(call: Any) -> str:
    tool: str = call.WhichOneof("tool")
    return call.call_mcp_tool.name if tool == "call_mcp_tool" else tool


CONTINUE = "Please continue."
_LABELS = re.compile(r"^(?=\\*(?:User|Assistant|Tool calls|Tool result \(.*\)|Tool error \(.*\)):)", re.MULTILINE)


class TextHistory(NamedTuple):
    query: str
    system: str
    images: tuple[Media, ...]


def render_history(request: Request, receipt: Receipt) -> TextHistory:
    """Render the conversation as one query, with its system prompt and images."""
    images: list[Media] = []
    system: list[str] = []
    turns: list[str] = []
    conversation: list[Message] = []
    for number, message in enumerate(request.messages):
        where = f"messages[{number}]"
        if message.role in SYSTEM_ROLES:
            system.append(system_text(message, where, receipt))
            continue
        conversation.append(message)
        turns += _render_turn(message, where, images, receipt)
    prompt = "\n\n".join(system)
    if len(conversation) == 1 and conversation[0].role == "user" and not _results(conversation[0]):
        return TextHistory(
            _render_content(conversation[0].content, "messages", images[:0], receipt, plain=True), prompt, tuple(images)
        )
    if conversation and _ends_in_results(conversation):
        turns.append(f"User: {ANALYZE_RESULTS}")
    elif conversation and conversation[-1].role == "assistant":
        turns.append(f"User: {CONTINUE}")
    if conversation:
        receipt.note("messages", "the conversation", "it is sent as one text, turn by turn")
    return TextHistory("\n\n".join(turns), prompt, tuple(images))


def _results(message: Message) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _ends_in_results(conversation: list[Message]) -> bool:
    return bool(conversation[-1].content) and all(isinstance(block, ToolResult) for block in conversation[-1].content)


def _render_turn(message: Message, where: str, images: list[Media], receipt: Receipt) -> list[str]:
    turns: list[str] = []
    for index, result in enumerate(message.content):
        if isinstance(result, ToolResult):
            label = "Tool error" if result.is_error else "Tool result"
            text = _render_content(result.content, f"{where}.content[{index}]", images, receipt)
            turns.append(f"{label} ({result.call_id}): {text}")
    rest = tuple(block for block in message.content if not isinstance(block, ToolResult))
    if message.role == "assistant":
        calls = [block for block in rest if isinstance(block, ToolCall)]
        lines = [f"Assistant: {_render_content(rest, where, images, receipt)}".rstrip()]
        if calls:
            lines.append(
                "Tool calls: "
                + "; ".join(f"Called {call.name} ({call.id}) with args: {call.arguments or '{}'}" for call in calls)
            )
        return ["\n".join(lines), *turns]
    if rest or not turns:
        turns.append(f"User: {_render_content(rest, where, images, receipt)}")
    return turns


def _render_content(
    content: tuple[Block, ...], where: str, images: list[Media], receipt: Receipt, *, plain: bool = False
) -> str:
    parts: list[str] = []
    for index, block in enumerate(content):
        match block:
            case Text(text=text) | Refusal(text=text):
                parts.append(text if plain else _LABELS.sub(r"\\", text))
            case Media(kind="image", source=source) if source.kind == "base64":
                images.append(block)
                if not plain:
                    parts.append(f"[image {len(images)}]")
            case Thinking():
                receipt.loss(f"{where}.content[{index}]", "reasoning", "a conversation sent as text leaves it out")
            case ToolCall() | ToolResult():
                pass
            case _:
                receipt.loss(f"{where}.content[{index}]", describe_block(block), "text cannot express it")
    return "\n".join(parts) if not plain else "\n\n".join(parts)
