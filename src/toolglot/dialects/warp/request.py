"""Requests: the protobuf message `Request` <-> `Request` of the IR.

The conversation is the task without a parent, followed by the input of the current turn. Everything else, other tasks
and unknown fields included, is kept as native on the node it belongs to.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.dialects.warp.fields import ReadFields, make_native, remaining_fields, restore, to_base64
from toolglot.dialects.warp.history import KEPT_TASKS, ROOT, write_history
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.tools import TOOL_SERVER, decode_tools, encode_tools, server_ids, set_server_id
from toolglot.dialects.warp.transcript import TranscriptReader
from toolglot.dialects.warp.unknown_fields import UnknownFields
from toolglot.errors import DecodeError
from toolglot.ir import Request, native_of
from toolglot.receipt import UNREAD, Receipt
from toolglot.wire.json import MAX_DOCUMENT_BYTES

PATH = "/ai/multi-agent"
WIRE = "$wire"
"""The note on a request of a Warp client: no defaults are filled in."""
OTHERS = "other_conversations"
CALL_MCP_TOOL = 9
"""The only kind of tool that a client of another API can run. With an empty list the server may use any kind."""
_SETTINGS: ReadFields = {"model_config": {"base": None}, "supports_parallel_tool_calls": None}
_DEPRECATED = ("user_query", "tool_call_result")


def path(request: Request) -> str:
    return PATH


# Decoding


def decode_request(data: bytes) -> Request:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DecodeError("$", f"the document has {len(data)} bytes, more than the limit of {MAX_DOCUMENT_BYTES}")
    wire = parse("Request", data)
    reader = TranscriptReader()
    tasks, root = _read_tasks(wire, reader)
    rest = remaining_fields(
        wire,
        {
            "task_context": {"tasks": None},
            "input": _read_input(wire, reader),
            "settings": _SETTINGS,
            "metadata": {},
            "mcp_context": None,
        },
    )
    tools, left = decode_tools(wire.mcp_context)
    notes: dict[str, Any] = {WIRE: True, **({KEPT_TASKS: tasks} if tasks else {}), **({ROOT: root} if tasks else {})}
    if others := _other_conversations(wire, root):
        notes[OTHERS] = others
    unknown = UnknownFields()
    unknown.add(wire, data)
    if lines := unknown.lines():
        notes[UNREAD] = lines
    if wire.HasField("mcp_context"):
        notes["mcp_context"] = left
    if (kind := wire.input.WhichOneof("type")) in _DEPRECATED:
        notes["$input"] = kind
    settings = wire.settings
    parallel = settings.supports_parallel_tool_calls if settings.HasField("supports_parallel_tool_calls") else None
    return Request(
        model=settings.model_config.base,
        messages=tuple(reader.messages),
        tools=tools,
        parallel_tool_calls=parallel,
        stream=True,
        native=make_native({**rest, **notes}),
    )


def _read_tasks(wire: Any, reader: TranscriptReader) -> tuple[list[str], int]:
    """Read the conversation. Returns all tasks, the root without its messages, and the root's index (-1: none)."""
    root = -1
    tasks: list[str] = []
    for index, task in enumerate(wire.task_context.tasks):
        if root < 0 and not task.dependencies.parent_task_id:
            root = index
            reader.read_task(task.messages)
            shell = new("Task")
            shell.CopyFrom(task)
            shell.ClearField("messages")
            tasks.append(to_base64(serialize(shell)))
        else:
            tasks.append(to_base64(serialize(task)))
    return tasks, root


def _other_conversations(wire: Any, root: int) -> list[str]:
    """Return the ids of further root tasks with messages. Other APIs have one conversation, so the receipt reports
    them.
    """
    return [
        task.id
        for index, task in enumerate(wire.task_context.tasks)
        if index != root and task.messages and not task.dependencies.parent_task_id
    ]


def _read_input(wire: Any, reader: TranscriptReader) -> ReadFields:
    """Read the input. Returns the fields that were read."""
    kind = wire.input.WhichOneof("type")
    images = wire.input.context.images
    if kind in _DEPRECATED:
        item = new("UserInput")
        getattr(item, kind).CopyFrom(getattr(wire.input, kind))
        reader.read_inputs([item], images)
        return {"context": {"images": None}, kind: None}
    reader.read_inputs(wire.input.user_inputs.inputs, images)
    return {"context": {"images": None}, "user_inputs": {"inputs": None}}


# Encoding


def encode_request(request: Request, receipt: Receipt) -> bytes:
    wire = new("Request")
    request = write_history(request, wire, receipt)
    own = native_of(request, NAME)
    if "$input" in own:
        _use_deprecated_input(wire, own["$input"])
    _encode_settings(request, wire.settings)
    if request.tools or "mcp_context" in own:
        wire.mcp_context.SetInParent()
        encode_tools(request, wire.mcp_context, receipt)
    if TOOL_SERVER in own:
        servers = server_ids(request)
        for task in wire.task_context.tasks:
            for message in task.messages:
                set_server_id(message, servers)
    _report_unsupported(request, receipt)
    restore(wire, {key: value for key, value in own.items() if key != "mcp_context"})
    return serialize(wire)


def _use_deprecated_input(wire: Any, kind: str) -> None:
    """Move a single input to the field that older clients use."""
    inputs = wire.input.user_inputs.inputs
    if len(inputs) == 1 and inputs[0].WhichOneof("input") == kind:
        item = new("UserInput")
        item.CopyFrom(inputs[0])
        getattr(wire.input, kind).CopyFrom(getattr(item, kind))


def _encode_settings(request: Request, settings: Any) -> None:
    own = native_of(request, NAME)
    if request.model:
        settings.model_config.base = request.model
    if request.parallel_tool_calls is not None:
        settings.supports_parallel_tool_calls = request.parallel_tool_calls
    if WIRE in own:
        return
    given = own.get("settings")
    given = given if isinstance(given, dict) else {}
    if request.parallel_tool_calls is None and "supports_parallel_tool_calls" not in given:
        settings.supports_parallel_tool_calls = True
    if "supported_tools" not in given:
        settings.supported_tools.append(CALL_MCP_TOOL)
    if "supports_reasoning_message" not in given:
        settings.supports_reasoning_message = True


_UNSUPPORTED = (
    "tool_choice",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "candidates",
    "response_format",
    "reasoning",
    "verbosity",
    "user",
    "metadata",
    "service_tier",
    "cache",
)
"""The optional fields of a request that Warp does not have."""


def _report_unsupported(request: Request, receipt: Receipt) -> None:
    for name in _UNSUPPORTED:
        value = getattr(request, name)
        if value is None or value == ():
            continue
        if name == "tool_choice" and value.mode == "auto" and not value.names:
            receipt.note(name, "auto", "Warp has no such parameter; this is what it does anyway")
            continue
        receipt.loss(name, name, "Warp has no such parameter")
