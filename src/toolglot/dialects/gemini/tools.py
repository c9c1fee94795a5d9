"""`tools` and `toolConfig` <-> the IR.

One entry of `tools` may hold function declarations and hosted tools at once. The declarations become `Tool`s, the
rest of the entry one `Opaque` behind them; how they were grouped is noted on the request when it is not the usual
way: all declarations in one entry, every hosted tool in an entry of its own.
"""

from __future__ import annotations

from typing import Any, Literal

from toolglot.dialects.gemini.blocks import filled, listed
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.openapi import json_schema
from toolglot.dialects.gemini.schema import openapi_schema
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of
from toolglot.receipt import Receipt
from toolglot.tools.remembered import MEMORY, written
from toolglot.wire.reader import Reader, expected, keep

Group = list[Any]
"""How one entry was made: [number of declarations or None when it had no such list, whether it had more]."""


# Tools


def decode_tools(body: Reader) -> tuple[tuple[Tool | Opaque, ...], dict[str, Any]]:
    """The tools, and the notes on how they were grouped."""
    if body.peek("tools") is None:
        return (), {}
    entries, bare = listed(body, "tools")
    tools: list[Tool | Opaque] = []
    groups: list[Group] = []
    for index, value in enumerate(entries):
        entry = Reader(value, f"{body.at('tools')}[{index}]")
        declared = entry.peek("functionDeclarations") is not None
        declarations, single = listed(entry, "functionDeclarations")
        where = entry.at("functionDeclarations")
        readers = (Reader(item, f"{where}[{at}]") for at, item in enumerate(declarations))
        tools += [MEMORY.tool(NAME, reader, _decode_tool) for reader in readers]
        rest = entry.rest()
        if rest:
            tools.append(Opaque(NAME, rest))
        groups.append([len(declarations) if declared and not single else -1 if single else None, bool(rest)])
    notes: dict[str, Any] = {"bare_tools": True if bare else None}
    if not groups or groups != _usual_groups(tools):
        notes["groups"] = groups
    return tuple(tools), notes


def _decode_tool(declaration: Reader) -> Tool:
    name, description = declaration.need_text("name"), declaration.text("description")
    parameters, notes = decode_schema(declaration, "parametersJsonSchema", "parameters")
    return Tool(name=name, description=description, parameters=parameters, native=keep(NAME, declaration, **notes))


def decode_schema(reader: Reader, plain: str, openapi: str) -> tuple[Any, dict[str, Any]]:
    """A schema from either of its two members, as JSON Schema, and the original where it was not that already."""
    key = plain if plain in reader else openapi
    original = reader.take(key)
    if original is None:
        return None, {}
    if not isinstance(original, dict | bool):
        raise expected(reader.at(key), "an object", original)
    schema = json_schema(original, reader.at(key))
    return schema, {key: original} if key == openapi or schema != original else {}


def encode_tools(request: Request, receipt: Receipt) -> Any:
    """The member `tools`; None when there is none."""
    notes = native_of(request, NAME)
    wants_openapi = bool(notes.get("$openapi_schema"))
    written: list[tuple[bool, dict[str, Any]]] = []  # (is a declaration, its form)
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Tool):
            written.append((True, _encode_tool(tool, f"tools[{index}]", wants_openapi, receipt)))
        elif tool.dialect == NAME:
            written.append((False, tool.value))
        else:
            receipt.loss(f"tools[{index}]", "tool of another API", "Gemini does not know its type")
    groups = notes.get("$groups")
    if groups is None or _flat(groups) != [is_declaration for is_declaration, _ in written]:
        groups = _usual_groups([tool for tool in request.tools if isinstance(tool, Tool) or tool.dialect == NAME])
        if not groups:
            return None
    entries = _grouped(groups, written)
    return entries[0] if notes.get("$bare_tools") and len(entries) == 1 else entries


def _usual_groups(tools: list[Tool | Opaque]) -> list[Group]:
    declarations = sum(isinstance(tool, Tool) for tool in tools)
    first = next((index for index, tool in enumerate(tools) if isinstance(tool, Tool)), 0)
    together = all(isinstance(tool, Tool) for tool in tools[first : first + declarations])
    groups: list[Group] = [[None, True] for _ in range(len(tools) - declarations)]
    if declarations:
        # Hosted tools between two declarations cannot stay there when all declarations share an entry.
        groups.insert(first if together else 0, [declarations, False])
    return groups


def _flat(groups: list[Group]) -> list[bool]:
    """What a grouping holds, in order: True for a declaration, False for the rest of an entry."""
    return [kind for count, more in groups for kind in [True] * abs(count or 0) + [False] * bool(more)]


def _grouped(groups: list[Group], written: list[tuple[bool, dict[str, Any]]]) -> list[dict[str, Any]]:
    declarations = [form for is_declaration, form in written if is_declaration]
    others = [form for is_declaration, form in written if not is_declaration]
    entries: list[dict[str, Any]] = []
    for count, more in groups:
        entry: dict[str, Any] = {}
        if count is not None:
            members, declarations = declarations[: abs(count)], declarations[abs(count) :]
            entry["functionDeclarations"] = members[0] if count < 0 else members
        if more:
            entry.update(others.pop(0))
        entries.append(entry)
    return entries


def _encode_tool(tool: Tool, where: str, wants_openapi: bool, receipt: Receipt) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        fields["description"] = tool.description
    keys = ("parametersJsonSchema", "parameters")
    fields |= encode_schema(tool, tool.parameters, *keys, f"{where}.parameters", wants_openapi, receipt)
    for present, what in (
        (tool.kind == "custom", "custom tool"),
        (tool.strict is True, "strict"),
        (tool.namespace is not None, "namespace"),
        (tool.deferred, "deferred"),
        (tool.cache is not None, "cache"),
    ):
        if present:
            receipt.loss(where, what, "a Gemini function declaration cannot say it")
    rest = {key: value for key, value in native_of(tool, NAME).items() if not key.startswith("$")}
    return {**fields, **rest}


def encode_schema(
    node: Any, schema: Any, plain: str, openapi: str, where: str, wants_openapi: bool, receipt: Receipt
) -> dict[str, Any]:
    """The member that holds a schema: the original while it still says the same, else the JSON Schema as it is."""
    notes = native_of(node, NAME)
    for key in (plain, openapi):
        if f"${key}" in notes and json_schema(notes[f"${key}"], where) == schema:
            return {key: notes[f"${key}"]}
    if schema is None:
        return {}
    if not wants_openapi:
        return {plain: written(schema)}
    reduced = openapi_schema(schema, where, receipt)
    if openapi == "parameters" and reduced.get("type") == "OBJECT" and not reduced.get("properties"):
        return {}  # older endpoints refuse an object without properties; no parameters say the same
    return {openapi: reduced}


# The choice among them

_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "AUTO": "auto",
    "ANY": "required",
    "NONE": "none",
    "VALIDATED": "auto",
    "MODE_UNSPECIFIED": "auto",
    "": "auto",
}
_WIRE_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def _usual_mode(choice: ToolChoice) -> str:
    # Only ANY and VALIDATED take allowedFunctionNames; VALIDATED leaves the model free to answer in text.
    if choice.mode == "auto" and choice.names:
        return "VALIDATED"
    return _WIRE_MODES.get(choice.mode, "AUTO")


def decode_choice(config: Reader) -> ToolChoice | None:
    """`functionCallingConfig` of a toolConfig."""
    calling = config.object("functionCallingConfig")
    if calling is None:
        return None
    raw = filled(calling, "mode") or ""
    if raw.upper() not in _MODES:
        return ToolChoice(mode="opaque", native={NAME: {**calling.rest(), "mode": raw}})
    names: list[Any] = (calling.array("allowedFunctionNames") or []) if calling.peek("allowedFunctionNames") else []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise expected(f"{calling.at('allowedFunctionNames')}[{index}]", "a string", name)
    choice = ToolChoice(mode=_MODES[raw.upper()], names=tuple(names))
    noted = raw if raw != _usual_mode(choice) else None
    native = keep(NAME, calling, mode=noted)
    if noted is not None and raw.upper() == "VALIDATED":
        # That calls keep to their schema is more than a shape: others must be told that nobody sees to it there.
        del native[NAME]["$mode"]
        native[NAME]["mode"] = raw
    return ToolChoice(mode=choice.mode, names=choice.names, native=native)


def encode_choice(choice: ToolChoice, receipt: Receipt) -> dict[str, Any] | None:
    """`functionCallingConfig`; None when this choice has no form here."""
    notes = native_of(choice, NAME)
    rest = {key: value for key, value in notes.items() if not key.startswith("$")}
    if choice.mode == "opaque":
        if not rest:
            receipt.loss("tool_choice", "a choice of another API", "Gemini cannot make it")
            return None
        return rest
    noted = notes["$mode"] if "$mode" in notes else rest.pop("mode", None)
    mode = noted if noted is not None and _MODES[noted.upper()] == choice.mode else _usual_mode(choice)
    fields: dict[str, Any] = {"mode": mode} if mode else {}
    if choice.names:
        fields["allowedFunctionNames"] = list(choice.names)
    return {**fields, **rest}
