"""`tools` and `tool_choice` <-> the IR. Server tools and toolsets are `Opaque`."""

from __future__ import annotations

from typing import Any, Literal

from toolglot.dialects.anthropic.native import NAME, take_cache, with_kept, write_cache
from toolglot.dialects.anthropic.schema import reduced_schema
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of
from toolglot.receipt import Receipt
from toolglot.tools.remembered import MEMORY, written
from toolglot.wire.reader import Reader, keep

_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "any": "required",
    "tool": "required",
}


def decode_tools(body: Reader) -> tuple[Tool | Opaque, ...]:
    return tuple(MEMORY.tool(NAME, tool, _decode_tool) for tool in body.objects("tools"))


def _decode_tool(tool: Reader) -> Tool | Opaque:
    kind = tool.peek("type")
    if kind not in (None, "custom") or "name" not in tool:
        return Opaque(NAME, tool.rest())
    deferred = tool.flag("defer_loading")
    fields: dict[str, Any] = {
        "name": tool.need_text("name"),
        "description": tool.text("description"),
        "parameters": tool.take("input_schema"),
        "strict": tool.flag("strict"),
        "cache": take_cache(tool),
    }
    tool.take("type")
    shape = {
        "type": kind,
        "deferred": False if deferred is False else None,
        "no_schema": True if fields["parameters"] is None else None,
        "strict": fields["strict"] or None,
    }
    return Tool(deferred=bool(deferred), native=keep(NAME, tool, **shape), **fields)


def encode_tools(request: Request, receipt: Receipt) -> list[dict[str, Any]] | None:
    tools: list[dict[str, Any]] = []
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Tool):
            tools.append(_encode_tool(tool, f"tools[{index}]", receipt))
        elif tool.dialect == NAME:
            tools.append(tool.value)
        else:
            receipt.loss(f"tools[{index}]", "tool of another API", "Messages does not know its type")
    return tools or None


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
        parameters = reduced_schema(parameters, f"{where}.parameters", receipt)
    fields = {
        "type": notes.get("$type"),
        "name": tool.name,
        "description": tool.description,
        "input_schema": written(parameters),
        "strict": tool.strict,
        "defer_loading": tool.deferred or notes.get("$deferred"),
    }
    wire = {key: value for key, value in fields.items() if value is not None}
    return with_kept(write_cache(wire, tool.cache), tool)


def decode_choice(body: Reader) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and whether parallel calls are wanted: both stand in `tool_choice`."""
    choice = body.object("tool_choice")
    if choice is None:
        return None, None
    kind = choice.peek("type")
    if not isinstance(kind, str) or kind not in _MODES or (kind == "tool" and "name" not in choice):
        return ToolChoice(mode="opaque", native={NAME: {"choice": choice.rest()}}), None
    choice.take("type")
    alone = choice.flag("disable_parallel_tool_use")
    names = (choice.need_text("name"),) if kind == "tool" else ()
    native = keep(NAME, choice, parallel=None if alone is None else not alone)
    return ToolChoice(mode=_MODES[kind], names=names, native=native), None if alone is None else not alone


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
    # `none` has no such field, except where it came so; parallel calls are the default.
    if (parallel is False and choice.mode != "none") or (parallel is not None and notes.get("$parallel") == parallel):
        wire["disable_parallel_tool_use"] = not parallel
    return with_kept(wire, choice)
