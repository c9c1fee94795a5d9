"""Events -> streams of the multi-agent API, for Warp's clients.

A stream is `init`, the task if the client has none yet, one message for each block, with text appended piece by piece,
and `finished`. Blocks from Warp itself keep their ids and side actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.dialects.warp.blocks import MESSAGE, encode_block, has_original_bytes, parse_arguments
from toolglot.dialects.warp.descriptors import new, parse
from toolglot.dialects.warp.fields import UNKNOWN, from_base64, restore
from toolglot.dialects.warp.finish import FINISHED, write_failure, write_stop
from toolglot.dialects.warp.frames import write_actions, write_event
from toolglot.dialects.warp.history import KEPT_TASKS, ROOT, restore_task
from toolglot.dialects.warp.masks import set_text
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.stream_entry import AROUND, BEFORE, EVENT
from toolglot.dialects.warp.tools import server_ids, set_server_id
from toolglot.dialects.warp.transcript import derive_id
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, closed, merge_native
from toolglot.ir import Block, Opaque, Refusal, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire.bad_arguments import describe_bad_arguments, show_bad_call
from toolglot.wire.retry_after import name_wait

_TEXT_PATHS: dict[type, str] = {
    Text: "agent_output.text",
    Refusal: "agent_output.text",
    Thinking: "agent_reasoning.reasoning",
}


class WarpStreamEncoder:
    delta_template = None

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._request = request
        self._started = False
        self._id = ""
        self._task = _root_of(request)
        self._servers = server_ids(request) if request is not None else {}
        self._index = 0
        self._block: Block | None = None
        self._arguments: list[str] = []
        self._message: Any = None  # the message of the open text block
        self._wrote = False
        self._has_answer = False

    def keepalive(self) -> bytes:
        return b":\n\n"

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta(text=text, logprobs=logprobs):
                if logprobs:
                    self._receipt.loss(f"content[{self._index}]", "log probabilities", "Warp has no place for them")
                return self._delta(text)
            case Open(index=index, block=block):
                self._index = index
                return self._open_block(block)
            case Close():
                return self._close_block(event)
            case Start():
                return self._start(event)
            case Finish():
                return self._finish(event)
            case Fault(error=error):
                return (
                    self._start(Start())
                    + self._write_side_actions(error.native.get(NAME, {}))
                    + write_event(write_failure(name_wait(error)))
                )

    def _start(self, event: Start) -> bytes:
        if self._started:
            return b""
        self._started = True
        self._id = event.id
        own = event.native.get(NAME, {})
        left = own.get("init", {})
        if left.get("$init") == "absent":
            return b""
        wire = new("ResponseEvent")
        wire.init.request_id = event.id
        if "init" not in own:
            wire.init.conversation_id = self._conversation_id()
        restore(wire.init, left)
        _restore_around(wire, own)
        return write_event(wire) + (b"" if "init" in own or not event.model else self._write_model_used(event.model))

    def _write_model_used(self, model: str) -> bytes:
        """Write the model, which Warp sends in a separate message."""
        message = new("Message")
        message.id, message.task_id = derive_id("model", self._id), self._task_id()
        message.model_used.model_id = model
        return self._write_message(message, None)

    def _conversation_id(self) -> str:
        """Return the id of the conversation: the client's own, or a new one derived from the answer's id."""
        metadata = native_of(self._request, NAME).get("metadata") if self._request is not None else None
        known = metadata.get("conversation_id") if isinstance(metadata, dict) else None
        return known if isinstance(known, str) and known else derive_id("conversation", self._id)

    def _write_side_actions(self, own: Mapping[str, Any]) -> bytes:
        """Write the side actions that an event carries."""
        written = b""
        for note in own.get(BEFORE, ()):
            if isinstance(note, dict):
                written += write_event(parse("ResponseEvent", from_base64(note.get(EVENT), BEFORE), BEFORE))
                continue
            action = parse("ClientAction", from_base64(note, BEFORE), BEFORE)
            if action.HasField("create_task") and not action.create_task.task.dependencies.parent_task_id:
                self._task = action.create_task.task.id
            written += write_actions(action)
        return written

    # Blocks

    def _open_block(self, block: Block) -> bytes:
        self._block, self._arguments, self._wrote = block, [], False
        own = block.value if isinstance(block, Opaque) and block.dialect == NAME else native_of(block, NAME)
        beside = self._write_side_actions(own) if isinstance(own, dict) else b""
        if type(block) in _TEXT_PATHS:
            self._message = self._encode_message(replace(block, text="") if isinstance(block, Refusal) else block)
            text = getattr(block, "text", "")
            return beside + (self._delta(text) if text and self._message is not None else b"")
        return beside if isinstance(block, ToolCall) else beside + self._write_block(block)

    def _encode_message(self, block: Block) -> Any:
        """Encode a block as a message. None, with a line in the receipt, if Warp has no message for it."""
        where = f"content[{self._index}]"
        message = new("Message")
        if isinstance(block, Thinking) and not block.text and not native_of(block, NAME):
            message.agent_reasoning.SetInParent()  # its text comes later
        elif not encode_block(block, message, where, self._receipt):
            return None
        if not isinstance(block, Opaque) and MESSAGE not in native_of(block, NAME):
            message.id = derive_id("message", self._id, self._index)
            message.task_id = self._task_id()
            set_server_id(message, self._servers)
        return message

    def _task_id(self) -> str:
        return self._task or derive_id("task", self._id)

    def _delta(self, text: str) -> bytes:
        if isinstance(self._block, ToolCall):
            self._arguments.append(text)
            return b""
        path = _TEXT_PATHS.get(type(self._block), "")
        if self._message is None or not path:
            return b""
        if not self._wrote and not _notes(self._block).get("$more"):
            self._wrote = True
            set_text(self._message, path, text)
            return self._write_message(self._message, self._block)
        self._wrote = True
        action = new("ClientAction")
        change = action.append_to_message_content
        change.task_id = self._task_of(self._message, self._block)
        change.message.id = self._message.id
        set_text(change.message, path, text)
        change.mask.paths.append(path)
        return write_actions(action)

    def _task_of(self, message: Any, block: Block | None) -> str:
        own = block.value if isinstance(block, Opaque) else native_of(block, NAME) if block is not None else {}
        task_id = own.get("$task_id") if isinstance(own, Mapping) else None
        return task_id if isinstance(task_id, str) else message.task_id or self._task_id()

    def _write_message(self, message: Any, block: Block | None) -> bytes:
        """Write a new message, after the action that creates its task if necessary."""
        actions: list[Any] = []
        task_id = self._task_of(message, block)
        self._has_answer = self._has_answer or block is not None
        if not self._task and MESSAGE not in _notes(block):
            action = new("ClientAction")
            action.create_task.task.id = task_id
            actions.append(action)
        self._task = self._task or task_id
        action = new("ClientAction")
        if _notes(block).get("$upsert"):
            action.update_task_message.task_id = task_id
            action.update_task_message.message.CopyFrom(message)
            paths = [field.name for field, _ in message.ListFields() if field.name not in ("id", "task_id")]
            action.update_task_message.mask.paths.extend(paths)
        else:
            action.add_messages_to_task.task_id = task_id
            action.add_messages_to_task.messages.add().CopyFrom(message)
        return b"".join(map(write_actions, (*actions, action)))

    def _write_block(self, block: Block) -> bytes:
        message = self._encode_message(block)
        return b"" if message is None else self._write_message(message, block)

    def _close_block(self, event: Close) -> bytes:
        block, self._block = self._block, None
        message, self._message = self._message, None
        if isinstance(block, ToolCall):
            whole = closed(block, "".join(self._arguments), event)
            return self._write_call(whole) if isinstance(whole, ToolCall) else b""
        if message is None or not isinstance(block, (Text, Refusal, Thinking)):
            return b""
        if event.citations:
            self._receipt.loss(f"content[{self._index}]", "citations", "Warp cites its own documents only")
        own = event.native.get(NAME, {})
        if not self._wrote and not _notes(block).get("$more"):  # a `$more` message exists already
            if isinstance(block, Thinking) and not native_of(block, NAME) and not own:
                self._receipt.loss(f"content[{self._index}]", "reasoning without text", "only its owner can read it")
                return b""
            return self._write_message(message, block) + self._write_changes(block, message, own)
        return self._write_changes(block, message, own)

    def _write_call(self, call: ToolCall) -> bytes:
        if (call.complete and parse_arguments(call.arguments) is not None) or has_original_bytes(call):
            return self._write_block(call)
        where = f"content[{self._index}]"
        why = f"{describe_bad_arguments(call.arguments)}; it is shown as text"
        self._receipt.loss(where, f"call of {call.name}", why)
        return self._write_block(Text(text=show_bad_call(call.name, call.arguments)))

    def _write_changes(self, block: Text | Refusal | Thinking, message: Any, own: Mapping[str, Any]) -> bytes:
        """Write the fields that are known only at the end of a block, as an update."""
        paths = list(own.get("$changed", ()))
        path = _TEXT_PATHS[type(block)]
        patch = new("Message")
        patch.id = message.id
        if paths:
            restore(patch, merge_native(block.native, {NAME: dict(own)})[NAME])
        if "$text" in own:
            set_text(patch, path, own["$text"])
            paths.append(path)
        if not paths:
            return b""
        action = new("ClientAction")
        action.update_task_message.task_id = self._task_of(message, block)
        action.update_task_message.message.CopyFrom(patch)
        action.update_task_message.mask.paths.extend(paths)
        return write_actions(action)

    def _finish(self, event: Finish) -> bytes:
        own = event.native.get(NAME, {})
        wire, inexpressible = write_stop(event.stop, event.usage, own.get(FINISHED), self._has_answer)
        if inexpressible is not None:
            self._receipt.loss("stop", inexpressible, "Warp has no such reason to stop: it is done")
        _restore_around(wire, own)
        return self._write_side_actions(own) + write_event(wire)


def _restore_around(event: Any, own: Mapping[str, Any]) -> None:
    if AROUND in own:
        restore(event, {UNKNOWN: own[AROUND]})


def _notes(block: Block | None) -> Mapping[str, Any]:
    if isinstance(block, Opaque):
        return {MESSAGE: True, **(block.value if isinstance(block.value, dict) else {})}
    return native_of(block, NAME) if block is not None else {}


def _root_of(request: Request | None) -> str:
    """Return the id of the client's root task. Empty if it has none yet."""
    own = native_of(request, NAME) if request is not None else {}
    tasks, root = own.get(KEPT_TASKS, ()), own.get(ROOT, -1)
    if not 0 <= root < len(tasks):
        return ""
    task = new("Task")
    restore_task(task, tasks[root], KEPT_TASKS)
    return str(task.id)
