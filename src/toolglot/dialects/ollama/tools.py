"""`tools` <-> the IR."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.wire import TOOLS, OllamaToolEntry
from toolglot.ir import Opaque, Request, Tool, native_of
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools, schema_json
from toolglot.wire.native import make_native, native_members
from toolglot.wire.structs import members_without


def decode_tools(data: bytes) -> tuple[Tool | Opaque, ...]:
    return tuple(map(_decode_tool, TOOLS.read(b'{"tools":%b}' % data).tools))


def _decode_tool(entry: OllamaToolEntry) -> Tool:
    function = entry.function
    inside = members_without(function, "name")
    beside = members_without(entry, "function")
    typeless = True if beside.pop("type", None) != "function" else None
    if typeless and entry.type:
        beside["type"] = entry.type
    return Tool(
        name=function.name,
        description=_pop_value(inside, "description"),
        parameters=_pop_value(inside, "parameters"),
        native=make_native(NAME, {**inside, **({"beside": beside} if beside else {})}, typeless=typeless),
    )


def _pop_value(members: dict[str, Any], name: str) -> Any:
    """Remove a member and return its value. A null stays."""
    return members.pop(name) if members.get(name) is not None else None


def encode_tools(request: Request, receipt: Receipt) -> Any:
    tools = request.tools
    listed = DECLARED.write(tools, NAME, lambda lines: _encode_tools(tools, lines), receipt)
    return [] if listed is None and native_of(request, NAME).get("$no_tools") else listed


def _encode_tools(tools: Tools, receipt: Receipt) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Opaque):
            receipt.loss(f"tools[{index}]", "tool of another API", "Ollama has functions alone")
        else:
            encoded.append(_encode_tool(tool))
    return encoded


def _encode_tool(tool: Tool) -> dict[str, Any]:
    notes = native_of(tool, NAME)
    inside = native_members(notes)
    beside = inside.pop("beside", {})
    fields = {"description": tool.description, "parameters": schema_json(tool.parameters)}
    function = {"name": tool.name, **{key: value for key, value in fields.items() if value is not None}, **inside}
    return {**({} if notes.get("$typeless") else {"type": "function"}), "function": function, **beside}
