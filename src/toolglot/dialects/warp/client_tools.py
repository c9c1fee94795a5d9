"""Fits the calls in Warp's answers to the tools that the client declared."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.dialects.warp.integers import restore_integers
from toolglot.dialects.warp.native import NAME
from toolglot.events import Close, Delta, Event, Finish, Open
from toolglot.ir import Json, Opaque, Request, Tool, ToolCall, native_of, replace, with_native
from toolglot.receipt import Receipt
from toolglot.wire import json

BUILTIN = "$builtin"
ARGS = "$args"
"""The note on a call whose JSON arguments are not exact: the arguments as text, and the bytes of their Struct."""
UNREADABLE = "$unreadable"
"""The note on a call whose arguments JSON cannot express."""


class ClientToolPass:
    """Hides calls of Warp's built-in tools, unless the client has declared a tool of that name.

    Whole numbers become integers if the tool's schema requires it. A Warp client gets arguments that JSON cannot
    express as bytes, so for that client the call is complete.
    """

    __slots__ = ("_as_bytes", "_calls", "_client", "_hidden", "_pieces", "_receipt", "_schemas", "_typed")

    def __init__(self, request: Request | None, client: str, receipt: Receipt) -> None:
        tools = request.tools if request is not None else ()
        self._schemas: dict[str, Json] = {tool.name: tool.parameters for tool in tools if isinstance(tool, Tool)}
        self._client = client
        self._receipt = receipt
        self._calls = 0  # number of calls that the client gets
        self._hidden: set[int] = set()
        self._as_bytes: set[int] = set()
        self._typed: dict[int, Json] = {}
        self._pieces: dict[int, list[str]] = {}

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index, text=text):
                if index in self._typed:
                    self._pieces[index].append(text)
                    return ()
                return () if index in self._hidden or index in self._as_bytes else (event,)
            case Open(block=ToolCall() as call) if self._client == NAME and UNREADABLE in native_of(call, NAME):
                return (self._open_as_bytes(event.index, call),)
            case Close(index=index) if index in self._as_bytes:
                return (replace(event, complete=True),)
            case Open(block=ToolCall() as call) if self._client != NAME:
                return (self._open(event.index, call),)
            case Close(index=index) if index in self._typed:
                text = _typed("".join(self._pieces.pop(index)), self._typed.pop(index))
                return (Delta(index, text), event) if text else (event,)
            case Finish(stop=stop) if self._hidden and not self._calls and stop.reason == "tool_calls":
                return (replace(event, stop=replace(stop, reason="end")),)  # the client has nothing to run
            case _:
                return (event,)

    def _open_as_bytes(self, index: int, call: ToolCall) -> Open:
        own = native_of(call, NAME)
        self._as_bytes.add(index)
        return Open(index, with_native(call, NAME, **{ARGS: ["", own[ARGS][1]]}) if ARGS in own else call)

    def _open(self, index: int, call: ToolCall) -> Open:
        own = native_of(call, NAME)
        if BUILTIN in own and call.name not in self._schemas:
            why = "the model used one of Warp's own tools, which the client did not declare: it is not run"
            self._receipt.loss(f"content[{index}]", f"call of {call.name}", why)
            self._hidden.add(index)
            return Open(index, Opaque(NAME, {"type": call.name, "call": call.id}))
        self._calls += 1
        if call.name in self._schemas and BUILTIN not in own:
            self._typed[index] = self._schemas[call.name]
            self._pieces[index] = []
        return Open(index, call)


def _typed(text: str, schema: Json) -> str:
    """Return the arguments, with integers where the schema requires them."""
    value = json.object_value(text)
    if value is None or not text.strip():
        return text
    typed = restore_integers(value, schema)
    return json.encode_text(typed) if json.encode_text(typed) != json.encode_text(value) else text
