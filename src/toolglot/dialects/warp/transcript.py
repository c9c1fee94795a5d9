"""A conversation <-> the messages of a task and the inputs after them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from toolglot.dialects.warp.blocks import MESSAGE, decode_block, encode_block
from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.dialects.warp.fields import from_base64, to_base64
from toolglot.dialects.warp.media import decode_media
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.queries import (
    ATTACHED,
    TASK,
    attach_system,
    decode_query,
    encode_query,
    find_system_prompt,
    remove_system_prompt,
    system_text,
)
from toolglot.dialects.warp.results import decode_result, encode_result
from toolglot.ir import Block, Message, Opaque, Text, ToolResult, is_instruction, native_of, replace
from toolglot.receipt import Receipt

IMAGES = "$images"
"""The note on a user message that has the images of the input and no query."""
SYSTEM_ROLES = ("system", "developer")


def derive_id(*parts: object) -> str:
    """Derive an id in the form of a UUID. The same parts give the same id in every process."""
    text = sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


# Decoding


class TranscriptReader:
    """Reads messages of a task and inputs as messages of the IR. Consecutive assistant blocks form one message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._attached: str | None = None  # the latest system prompt

    def read_task(self, messages: Sequence[Any]) -> None:
        blocks: list[Block] = []  # consecutive blocks of the assistant
        for message in messages:
            match message.WhichOneof("message"):
                case "user_query":
                    self._end_assistant_message(blocks)
                    self._add_query(message, in_task=True)
                case "tool_call_result" if message.tool_call_result.WhichOneof("result") not in ("server", "subagent"):
                    self._end_assistant_message(blocks)
                    self._add_result(message, {NAME: {TASK: True}})
                case _:
                    blocks.append(decode_block(message))
        self._end_assistant_message(blocks)

    def _end_assistant_message(self, blocks: list[Block]) -> None:
        if blocks:
            self.messages.append(Message(role="assistant", content=tuple(blocks)))
            blocks.clear()

    def read_inputs(self, inputs: Sequence[Any], images: Sequence[Any]) -> None:
        places: list[int] = []  # indices of the queries
        for item in inputs:
            match item.WhichOneof("input"):
                case "user_query":
                    places.append(len(self.messages))
                    self._add_query(item, in_task=False)
                case "tool_call_result":
                    self._add_result(item, {})
                case kind:
                    value = {"type": kind or "input", "input": to_base64(serialize(item))}
                    self.messages.append(Message(role="user", content=(Opaque(NAME, value),)))
        queries = [item for item in inputs if item.WhichOneof("input") == "user_query"]
        system = find_system_prompt(queries[-1]) if queries else None
        if system is not None:
            place = places[-1]
            self.messages[place] = query = remove_system_prompt(self.messages[place])
            is_empty = not query.content and not query.native and place == len(self.messages) - 1
            if is_empty and len(places) == 1:
                del self.messages[place]  # it only carried the system prompt
        if images:
            self._add_images([decode_media(image) for image in images], bool(inputs))
        if system is not None:
            self.messages.insert(0, Message(role="system", content=(Text(text=system),)))
        elif self._attached is not None:
            native = {NAME: {ATTACHED: True}}
            self.messages.insert(0, Message(role="system", content=(Text(text=self._attached),), native=native))

    def _add_images(self, images: Sequence[Block], has_inputs: bool) -> None:
        last = self.messages[-1] if self.messages and has_inputs else None
        if last is not None and last.role == "user" and not any(isinstance(block, Opaque) for block in last.content):
            self.messages[-1] = replace(last, content=(*last.content, *images))
        else:
            self.messages.append(Message(role="user", content=tuple(images), native={NAME: {IMAGES: True}}))

    def _add_query(self, outer: Any, *, in_task: bool) -> None:
        self.messages.append(decode_query(outer, in_task=in_task))
        system = find_system_prompt(outer)
        self._attached = self._attached if system is None else system

    def _add_result(self, outer: Any, native: dict[str, Any]) -> None:
        self.messages.append(Message(role="tool", content=(decode_result(outer),), native=native))


# Encoding


def find_first_input(messages: Sequence[Message]) -> int:
    """Return the index of the first input message: after the last message of the assistant or from a task."""
    for index in range(len(messages), 0, -1):
        message = messages[index - 1]
        if message.role == "assistant" or TASK in native_of(message, NAME):
            return index
    return 0


class TranscriptWriter:
    """Writes messages into a task, then into the inputs of a request, and attaches the system prompt to the inputs."""

    def __init__(self, wire: Any, receipt: Receipt) -> None:
        self._wire = wire
        self._receipt = receipt
        self._system: list[str] = []
        self._has_messages = False

    def write_task(self, task: Any, messages: Sequence[Message], start: int) -> None:
        for number, message in enumerate(messages, start):
            self._write_message(message, f"messages[{number}]", task)

    def write_inputs(self, messages: Sequence[Message], start: int) -> None:
        for number, message in enumerate(messages, start):
            self._write_message(message, f"messages[{number}]", None)

    def finish(self) -> None:
        if self._system:
            attach_system(self._wire.input.user_inputs.inputs, "\n\n".join(self._system))

    def _write_message(self, message: Message, where: str, task: Any) -> None:
        for index, block in enumerate(message.content):
            if getattr(block, "cache", None) is not None:
                self._receipt.loss(f"{where}.content[{index}]", "cache breakpoint", "Warp caches automatically")
        if message.role in SYSTEM_ROLES:
            self.add_system(message, where)
            return
        self._has_messages = True
        if message.role == "assistant":
            self._write_assistant(message, where, task)
            return
        lines = [block.text for block in message.content if isinstance(block, Text) and is_instruction(block)]
        if lines:  # they apply to this turn only: in a query they would stay as the user's own text
            self._system += lines
            message = replace(message, content=tuple(block for block in message.content if not is_instruction(block)))
        results = [block for block in message.content if isinstance(block, ToolResult)]
        for index, block in enumerate(message.content):
            if isinstance(block, ToolResult):
                outer = self._new_message(task, is_restored=TASK in native_of(message, NAME))
                encode_result(block, outer, f"{where}.content[{index}]", self._receipt)
        if len(results) < len(message.content) or not (results or lines):
            self._write_user(message, where, task)

    def add_system(self, message: Message, where: str) -> None:
        if ATTACHED in native_of(message, NAME):
            return
        if self._has_messages:
            self._receipt.loss(where, f"the place of a {message.role} message", "it is part of the system prompt")
        self._system.append(system_text(message, where, self._receipt))

    def _write_user(self, message: Message, where: str, task: Any) -> None:
        if message.role != "user":
            self._receipt.loss(where, f"role {message.role}", "Warp knows users, agents and results of tools")
        own = native_of(message, NAME)
        if task is None and self._write_raw_input(message, where):
            return
        if task is None and IMAGES in own:
            encode_query(message, new("UserInput"), self._wire.input.context.images, where, self._receipt)
            return
        outer = self._new_message(task, is_restored=TASK in own)
        images = outer.user_query.context.images if task is not None else self._wire.input.context.images
        encode_query(message, outer, images, where, self._receipt)

    def _write_raw_input(self, message: Message, where: str) -> bool:
        """Write the original of an input that only Warp understands. Returns False for other messages."""
        match message.content:
            case (Opaque(dialect=dialect, value={"input": str(data)}),) if dialect == NAME:
                self._wire.input.user_inputs.inputs.add().CopyFrom(parse("UserInput", from_base64(data, where), where))
                return True
        return False

    def _write_assistant(self, message: Message, where: str, task: Any) -> None:
        for index, block in enumerate(message.content):
            place = f"{where}.content[{index}]"
            outer = new("Message")
            if isinstance(block, ToolResult):
                encode_result(block, outer, place, self._receipt)
            elif not encode_block(block, outer, place, self._receipt):
                continue
            if isinstance(block, Opaque) or MESSAGE in native_of(block, NAME):
                task.messages.add().CopyFrom(outer)
            else:
                self._new_message(task, is_restored=False).MergeFrom(outer)

    def _new_message(self, task: Any, *, is_restored: bool) -> Any:
        """Add a message to the task, or an input. A restored message gets no new ids: it has its own, or none."""
        if task is None:
            return self._wire.input.user_inputs.inputs.add()
        message = task.messages.add()
        if not is_restored:
            message.id, message.task_id = derive_id(task.id, len(task.messages)), task.id
        return message
