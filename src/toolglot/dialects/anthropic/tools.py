"""`tools` and `tool_choice` <-> the IR. Server tools and toolsets are `Opaque`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType
from msgspec.json import Decoder

from toolglot.dialects.anthropic.native import NAME, decode_cache, keep, restore_members, write_cache
from toolglot.dialects.anthropic.schema import reduce_schema
from toolglot.dialects.anthropic.wire import NamedChoice, ToolChoiceObject, read_tool
from toolglot.errors import DecodeError, expected
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools, schema_json
from toolglot.wire import json
from toolglot.wire.typed import UnsoundError

_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "any": "required",
    "tool": "required",
}


_elements: Decoder[list[Raw]] = Decoder(list[Raw])


def decode_tools(raw: Raw) -> tuple[Tool | Opaque, ...]:
    """Decode the tools. The same array gives the same (cached) tools. Raises `UnsoundError`."""
    return DECLARED.read(NAME, raw, _decode_tools, lambda tools: tools)


def is_array(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b"["


def sound_value(raw: bytes | Raw) -> Any:
    """Decode a `Raw` member. Raises `UnsoundError`."""
    try:
        return json.decode(bytes(raw))
    except DecodeError:
        raise UnsoundError from None


def _decode_tools(data: bytes) -> tuple[Tool | Opaque, ...]:
    value = sound_value(data)
    if not isinstance(value, list):
        raise expected("$.tools", "an array", value)
    elements = _elements.decode(data)
    return tuple(
        _decode_tool(*item, f"$.tools[{index}]") for index, item in enumerate(zip(elements, value, strict=True))
    )


def _decode_tool(raw: Raw, value: Any, where: str) -> Tool | Opaque:
    if not isinstance(value, dict):
        raise expected(where, "an object", value)
    if value.get("type") not in (None, "custom") or value.get("name") is None:
        return Opaque(NAME, value)
    tool = read_tool(raw, where)
    schema = None if tool.input_schema is UNSET else tool.input_schema
    strict = None if tool.strict is UNSET else tool.strict
    shape = {
        "type": None if tool.type is UNSET else tool.type,
        "deferred": False if tool.defer_loading is False else None,
        "no_schema": True if schema is None else None,
        "strict": strict or None,
    }
    return Tool(
        name=tool.name,
        description=None if tool.description is UNSET else tool.description,
        parameters=schema,
        strict=strict,
        cache=decode_cache(tool.cache_control),
        deferred=tool.defer_loading is True,
        native=keep({} if tool.rest is UNSET else dict(tool.rest), **shape),
    )


def encode_tools(request: Request, receipt: Receipt) -> Any:
    """Encode the member `tools`. None if there are no tools."""
    return DECLARED.write(request.tools, NAME, lambda lines: _encode_tools(request.tools, lines), receipt)


def _encode_tools(declared: Tools, receipt: Receipt) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    for index, tool in enumerate(declared):
        if isinstance(tool, Tool):
            tools.append(_encode_tool(tool, f"tools[{index}]", receipt))
        elif tool.dialect == NAME:
            tools.append(tool.value)
        else:
            receipt.loss(f"tools[{index}]", "tool of another API", "Messages does not know its type")
    return tools


def _encode_tool(tool: Tool, where: str, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(tool, NAME)
    if tool.kind == "custom":
        receipt.loss(where, f"custom tool {tool.name}", "Messages has only tools that take a JSON object")
    if tool.namespace is not None:
        receipt.loss(f"{where}.namespace", tool.namespace, "Messages has no namespaces")
    parameters = tool.parameters
    if parameters is None and not notes.get("$no_schema"):
        parameters = {"type": "object", "properties": {}}
    if tool.strict and not notes.get("$strict"):
        parameters = reduce_schema(parameters, f"{where}.parameters", receipt)
    fields = {
        "type": notes.get("$type"),
        "name": tool.name,
        "description": tool.description,
        "input_schema": schema_json(parameters),
        "strict": tool.strict,
        "defer_loading": tool.deferred or notes.get("$deferred"),
    }
    wire = {key: value for key, value in fields.items() if value is not None}
    return restore_members(write_cache(wire, tool.cache), tool)


def decode_choice(choice: ToolChoiceObject | UnsetType) -> tuple[ToolChoice | None, bool | None]:
    """Decode the choice, and whether parallel calls are allowed: `tool_choice` has both."""
    if choice is UNSET:
        return None, None
    alone = choice.disable_parallel_tool_use
    parallel = None if alone is UNSET else not alone
    mode = _MODES[str(choice.__struct_config__.tag)]
    names = (choice.name,) if isinstance(choice, NamedChoice) else ()
    native = keep({} if choice.rest is UNSET else dict(choice.rest), parallel=parallel)
    return ToolChoice(mode=mode, names=names, native=native), parallel


def take_other_choice(fields: dict[str, Any]) -> ToolChoice | None:
    """Remove a choice of a type that only this dialect has from the unknown members, and return it."""
    if fields.get("tool_choice") is None:
        return None
    choice = fields.pop("tool_choice")
    if not isinstance(choice, dict):
        raise expected("$.tool_choice", "an object", choice)
    return ToolChoice(mode="opaque", native={NAME: {"choice": choice}})


def encode_choice(request: Request, receipt: Receipt) -> dict[str, Any] | None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if choice is None:
        # Without tools the API refuses the object, and there is nothing to call in parallel.
        return {"type": "auto", "disable_parallel_tool_use": True} if parallel is False and request.tools else None
    notes = native_of(choice, NAME)
    if choice.mode == "opaque":
        if "choice" not in notes:
            receipt.loss("tool_choice", "a hosted tool", "Messages cannot choose it")
        return notes.get("choice")
    wire: dict[str, Any] = {"type": choice.mode}
    if choice.mode == "required":
        wire = {"type": "tool", "name": choice.names[0]} if len(choice.names) == 1 else {"type": "any"}
    if choice.names and wire["type"] != "tool":
        receipt.loss("tool_choice.names", ", ".join(choice.names), "Messages cannot allow a part of the tools")
    # `none` has no such field, unless the client sent it. Parallel calls are the default.
    if (parallel is False and choice.mode != "none") or (parallel is not None and notes.get("$parallel") == parallel):
        wire["disable_parallel_tool_use"] = not parallel
    return restore_members(wire, choice)
