"""What an answer of Warp's needs the request for: the tools that the client has, what their schemas say, and which
tasks the server was told of.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from toolglot.dialects.warp.integers import whole_numbers
from toolglot.dialects.warp.native import NAME
from toolglot.events import Close, Delta, Event, Finish, Open
from toolglot.ir import Block, Json, Opaque, Request, Tool, ToolCall, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire import json

BUILTIN = "$builtin"


class Declared:
    """Calls of Warp's own tools reach a client that has declared a tool of that name, and no other.

    Whole numbers are integers where the tool's schema says so. What is said in tasks inside the conversation, and what
    changes messages of earlier answers, is no part of this one: the decoder cannot know, since they were made before.
    """

    __slots__ = (
        "_calls",
        "_client",
        "_hidden",
        "_messages",
        "_numbers",
        "_pieces",
        "_receipt",
        "_schemas",
        "_subtasks",
        "_typed",
    )

    def __init__(self, request: Request | None, client: str, receipt: Receipt) -> None:
        tools = request.tools if request is not None else ()
        self._schemas: dict[str, Json] = {tool.name: tool.parameters for tool in tools if isinstance(tool, Tool)}
        self._client = client
        self._receipt = receipt
        self._calls = 0  # those that the client gets
        self._hidden: set[int] = set()
        self._typed: dict[int, Json] = {}
        self._pieces: dict[int, list[str]] = {}
        self._subtasks, self._messages = _sent(request) if client != NAME else _NOTHING
        self._numbers: dict[int, int] | None = {} if self._subtasks or self._messages else None

    def feed(self, event: Event) -> Sequence[Event]:
        if self._numbers is None:
            return self._fed(event)
        match event:
            case Open(index=index, block=block):
                if self._is_elsewhere(block):
                    return ()
                self._numbers[index] = number = len(self._numbers)
                return self._fed(Open(number, block))
            case Delta(index=index, text=text):
                return self._fed(Delta(self._numbers[index], text)) if index in self._numbers else ()
            case Close(index=index):
                return self._fed(replace(event, index=self._numbers[index])) if index in self._numbers else ()
            case Finish(stop=stop) if stop.reason == "tool_calls" and not self._calls:
                return (replace(event, stop=replace(stop, reason="end")),)
        return self._fed(event)

    def _is_elsewhere(self, block: Block) -> bool:
        own = native_of(block, NAME)
        task = own.get("$task_id", own.get("task_id"))
        return task in self._subtasks or ("$upsert" in own and own.get("id") in self._messages)

    def _fed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index, text=text):
                if index in self._typed:
                    self._pieces[index].append(text)
                    return ()
                return () if index in self._hidden else (event,)
            case Open(block=ToolCall() as call) if self._client != NAME:
                return (self._open(event.index, call),)
            case Close(index=index) if index in self._typed:
                text = _typed("".join(self._pieces.pop(index)), self._typed.pop(index))
                return (Delta(index, text), event) if text else (event,)
            case Finish(stop=stop) if self._hidden and not self._calls and stop.reason == "tool_calls":
                return (replace(event, stop=replace(stop, reason="end")),)  # there is nothing to wait for
            case _:
                return (event,)

    def _open(self, index: int, call: ToolCall) -> Open:
        own = native_of(call, NAME)
        if BUILTIN in own and call.name not in self._schemas:
            why = "the model used a tool of Warp's own, which the client has not declared: nobody runs it"
            self._receipt.loss(f"content[{index}]", f"call of {call.name}", why)
            self._hidden.add(index)
            return Open(index, Opaque(NAME, {"type": call.name, "call": call.id}))
        self._calls += 1
        if call.name in self._schemas and BUILTIN not in own:
            self._typed[index] = self._schemas[call.name]
            self._pieces[index] = []
        return Open(index, call)


_NOTHING: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())


def _sent(request: Request | None) -> tuple[frozenset[str], frozenset[str]]:
    """The tasks inside others, and the messages, that the request told the server of."""
    tasks: Any = native_of(request, NAME).get("tasks") if request is not None else None
    if not tasks:
        return _NOTHING
    known: tuple[frozenset[str], frozenset[str]] = import_module("toolglot.dialects.warp.tasks").known(tasks)
    return known


def _typed(text: str, schema: Json) -> str:
    """The arguments with the integers that the schema asks for."""
    raw = json.object_of(text)
    if raw is None or not text.strip():
        return text
    value = json.decode_frame(bytes(raw))
    typed = whole_numbers(value, schema)
    return json.encode_text(typed) if json.encode_text(typed) != json.encode_text(value) else text
