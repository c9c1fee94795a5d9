"""Messages of a task <-> blocks. Each Warp message is one block of the assistant, one result or one query."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.client_tools import ARGS, UNREADABLE
from toolglot.dialects.warp.descriptors import Struct, parse, serialize
from toolglot.dialects.warp.fields import ReadFields, from_base64, make_native, remaining_fields, restore, to_base64
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.results import BUILTIN, to_dict
from toolglot.dialects.warp.values import arguments_of, is_exact, unreadable_arguments, write_struct
from toolglot.errors import DecodeError
from toolglot.ir import (
    Block,
    Native,
    Opaque,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments

TEXT: ReadFields = {"agent_output": {"text": None}}
REASONING: ReadFields = {"agent_reasoning": {"reasoning": None}}
CALL: ReadFields = {"tool_call": {"tool_call_id": None, "call_mcp_tool": {"name": None, "args": None}}}
MESSAGE = "$message"
"""The note on a block that was decoded from a Warp message: its other fields were absent."""
INTERNAL = frozenset({"server", "subagent"})
"""Kinds of calls that Warp's server answers itself."""
PLACEHOLDER = "placeholder"
"""The type of a message without known content."""


# Decoding


def decode_block(message: Any) -> Block:
    """Decode a message of the assistant. A message that only Warp understands becomes `Opaque`."""
    match message.WhichOneof("message"):
        case "agent_output":
            return Text(text=message.agent_output.text, native=_make_native(message, TEXT))
        case "agent_reasoning":
            return Thinking(text=message.agent_reasoning.reasoning, native=_make_native(message, REASONING))
        case "tool_call" if is_call(message):
            return decode_call(message)
    return decode_opaque(message)


def _make_native(message: Any, taken: ReadFields, **notes: Any) -> Any:
    return make_native({**remaining_fields(message, taken), MESSAGE: True, **notes})


def is_call(message: Any) -> bool:
    """Return whether this is a call of a tool that the client must run."""
    tool = message.tool_call.WhichOneof("tool") if message.HasField("tool_call") else None
    return tool is not None and tool not in INTERNAL


def decode_call(message: Any) -> ToolCall:
    """Decode a call. For `call_mcp_tool` the name is that of the MCP tool, otherwise that of the built-in tool."""
    call = message.tool_call
    tool = call.WhichOneof("tool")
    if tool != "call_mcp_tool":
        body = getattr(call, tool)
        native = _make_native(
            message, {"tool_call": {"tool_call_id": None, tool: None}}, **{BUILTIN: _original_body(tool, body)}
        )
        value = None if _is_unreadable(body) else to_dict(body)
        arguments = unreadable_arguments(body.ByteSize()) if value is None else json.encode_text(value)
        return _make_call(call.tool_call_id, tool, arguments, native)
    mcp = call.call_mcp_tool
    arguments = arguments_of(mcp.args)
    notes = {} if is_exact(arguments, mcp.args) else {ARGS: [arguments, to_base64(serialize(mcp.args))]}
    return _make_call(call.tool_call_id, mcp.name, arguments, _make_native(message, CALL, **notes))


def _make_call(call_id: str, name: str, arguments: str, native: Native) -> ToolCall:
    """Make a call. It is incomplete if JSON cannot express its arguments, so that clients do not run it."""
    call = ToolCall(id=call_id, name=name, arguments=arguments, native=native)
    if json.object_of(arguments) is not None:
        return call
    return with_native(replace(call, complete=False), NAME, **{UNREADABLE: True})


def _is_unreadable(body: Any) -> bool:
    """Return whether this is a message without known fields that is not empty."""
    return not body.DESCRIPTOR.fields and bool(body.ByteSize())


def _original_body(tool: str, body: Any) -> list[str]:
    return [tool, to_base64(serialize(body))]


def decode_opaque(message: Any) -> Opaque:
    kind = message.WhichOneof("message") or PLACEHOLDER
    return Opaque(NAME, {"type": kind, "message": to_base64(serialize(message))})


# Encoding


def encode_block(block: Block, message: Any, where: str, receipt: Receipt) -> bool:
    """Write a block of the assistant into an empty message. Returns False if Warp has no such message."""
    own = native_of(block, NAME)
    match block:
        case Text(text=text):
            if block.citations:
                receipt.loss(where, "citations", "Warp cites its own documents only")
            message.agent_output.text = text
        case Refusal(text=text):
            receipt.note(where, "refusal", "Warp has no refusals: it is written as text")
            message.agent_output.text = text
        case Thinking(text=text):
            if not text and not own:
                receipt.loss(where, "reasoning without text", "only its owner can read it")
                return False
            message.agent_reasoning.reasoning = text
        case ToolCall():
            encode_call(block, message, where, receipt)
        case Opaque(dialect=dialect, value={"message": str(data)}) if dialect == NAME:
            message.CopyFrom(parse("Message", from_base64(data, where), where))
        case _:
            receipt.loss(where, describe_block(block), "Warp's assistant messages cannot hold it")
            return False
    restore(message, own)
    return True


def encode_call(call: ToolCall, message: Any, where: str, receipt: Receipt) -> None:
    """Write a call of `call_mcp_tool`, Warp's form for every tool that is not built in."""
    own = native_of(call, NAME)
    message.tool_call.tool_call_id = call.id
    if BUILTIN in own and has_original_bytes(call):
        tool, data = own[BUILTIN]
        restore(message.tool_call, {tool: data})
        return
    if call.namespace is not None:
        receipt.loss(where, f"namespace {call.namespace}", "Warp has no namespaces")
    mcp = message.tool_call.call_mcp_tool
    mcp.name = call.name
    if ARGS in own and has_original_bytes(call):
        mcp.args.CopyFrom(Struct.FromString(from_base64(own[ARGS][1], where)))
        return
    value = parse_arguments(call.arguments)
    if value is None:
        _write_raw(call, mcp.args, describe_bad_arguments(call.arguments), where, receipt)
        return
    try:
        if json.repeats_a_key(call.arguments, value):
            receipt.loss(where, "a repeated key of the arguments", "a Struct has each once: the last one counts")
        if not write_struct(value, mcp.args, where):
            receipt.loss(where, "a large whole number", "the numbers of a Struct are doubles: it is rounded")
    except DecodeError as error:
        _write_raw(call, mcp.args, error.what, where, receipt)


def has_original_bytes(call: ToolCall) -> bool:
    """Return whether the arguments of this call are written from their original bytes."""
    own = native_of(call, NAME)
    if BUILTIN in own:
        return bool(own[BUILTIN][0] == call.name)
    return ARGS in own and bool(own[ARGS][0] == call.arguments)


def _write_raw(call: ToolCall, struct: Any, why: str, where: str, receipt: Receipt) -> None:
    """Write arguments that a Struct cannot express as text."""
    receipt.loss(where, "arguments", f"{why}; they are in `_raw` as text")
    struct.Clear()
    write_struct({"_raw": call.arguments}, struct, where)


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """Parse arguments to an object. None if they are not an object."""
    return json.object_value(arguments)
