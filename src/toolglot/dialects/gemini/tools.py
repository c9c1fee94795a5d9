"""`tools` and `toolConfig` <-> the IR.

One entry of `tools` may have function declarations and hosted tools at once. The declarations become `Tool`s, the rest
of the entry one `Opaque` after them. The usual grouping is all declarations in one entry and every hosted tool in its
own entry; a note on the request keeps any other grouping.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from toolglot.dialects.gemini.blocks import keep
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.openapi import to_json_schema
from toolglot.dialects.gemini.schema import reduce_schema
from toolglot.dialects.gemini.wire import TOOLS, FunctionCallingConfig, GeminiFunctionDeclaration, GeminiToolEntry
from toolglot.errors import expected
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, schema_json
from toolglot.wire.member_decode import is_null
from toolglot.wire.structs import members_without

EntryGroup = list[Any]
"""The form of one entry: [number of declarations, whether it has other members]. The number is None without
declarations, and negative for a single one without an array."""


# Tools


class DeclaredGroups(Struct, frozen=True):
    """The decoded member `tools`: the tools, and notes on how they were grouped."""

    tools: tuple[Tool | Opaque, ...] = ()
    is_bare: bool | None = None
    groups: list[EntryGroup] | None = None


_NO_TOOLS = DeclaredGroups()
NULL_TOOLS = DeclaredGroups()
"""The result for a null, compared by identity."""


def decode_tools(raw: Raw | UnsetType) -> DeclaredGroups:
    if raw is UNSET:
        return _NO_TOOLS
    if is_null(raw):
        return NULL_TOOLS
    return DECLARED.read(NAME, raw, _decode_tools, lambda declared: declared.tools)


def _decode_tools(raw: bytes) -> DeclaredGroups:
    member = TOOLS.read(b'{"tools":%b}' % raw).tools
    tools: list[Tool | Opaque] = []
    groups: list[EntryGroup] = []
    for index, entry in enumerate(member if isinstance(member, list) else [] if member is UNSET else [member]):
        declared = entry.function_declarations
        declarations = declared if isinstance(declared, list) else [] if declared is UNSET else [declared]
        where = f"$.tools[{index}].functionDeclarations"
        tools += [_decode_tool(one, f"{where}[{at}]") for at, one in enumerate(declarations)]
        if entry.rest is not UNSET:
            tools.append(Opaque(NAME, dict(entry.rest)))
        count = len(declared) if isinstance(declared, list) else None if declared is UNSET else -1
        groups.append([count, entry.rest is not UNSET])
    noted = groups if not groups or groups != _usual_groups(tools) else None
    return DeclaredGroups(tuple(tools), True if isinstance(member, GeminiToolEntry) else None, noted)


def _decode_tool(declaration: GeminiFunctionDeclaration, where: str) -> Tool:
    schemas = declaration.parameters_json_schema, declaration.parameters
    parameters, taken, notes = decode_schema(schemas, ("parametersJsonSchema", "parameters"), where)
    description = declaration.description
    native = keep(members_without(declaration, "name", "description", taken), **notes)
    return Tool(
        name=declaration.name,
        description=None if description is UNSET else description,
        parameters=parameters,
        native=native,
    )


def decode_schema(schemas: tuple[Any, Any], names: tuple[str, str], where: str) -> tuple[Any, str, dict[str, Any]]:
    """Decode a schema from either of two members, one with JSON Schema and one with OpenAPI.

    Returns JSON Schema, the name of the member, and the original if it was not already in that form.
    """
    is_plain = schemas[0] is not UNSET and schemas[0] is not None
    original, name = (schemas[0], names[0]) if is_plain else (schemas[1], names[1])
    if original is UNSET or original is None:
        return None, "", {}
    if not isinstance(original, (dict, bool)):
        raise expected(f"{where}.{name}", "an object", original)
    schema = to_json_schema(original, f"{where}.{name}")
    return schema, name, {name: original} if not is_plain or schema != original else {}


def encode_tools(request: Request, receipt: Receipt) -> Any:
    """Encode the member `tools`. None if there are no tools."""
    notes = native_of(request, NAME)
    if "$groups" in notes or "$bare_tools" in notes:
        return _encode_tools(request, receipt)
    what = f"{NAME} openapi" if notes.get("$openapi_schema") else NAME
    return DECLARED.write(request.tools, what, lambda lines: _encode_tools(request, lines), receipt)


def _encode_tools(request: Request, receipt: Receipt) -> Any:
    notes = native_of(request, NAME)
    wants_openapi = bool(notes.get("$openapi_schema"))
    encoded: list[tuple[bool, dict[str, Any]]] = []  # (is a declaration, its wire form)
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Tool):
            encoded.append((True, _encode_tool(tool, f"tools[{index}]", wants_openapi, receipt)))
        elif tool.dialect == NAME:
            encoded.append((False, tool.value))
        else:
            receipt.loss(f"tools[{index}]", "tool of another API", "Gemini does not know its type")
    groups = notes.get("$groups")
    if groups is None or _flatten_groups(groups) != [is_declaration for is_declaration, _ in encoded]:
        groups = _usual_groups([tool for tool in request.tools if isinstance(tool, Tool) or tool.dialect == NAME])
        if not groups:
            return None
    entries = _build_entries(groups, encoded)
    return entries[0] if notes.get("$bare_tools") and len(entries) == 1 else entries


def _usual_groups(tools: list[Tool | Opaque]) -> list[EntryGroup]:
    declarations = sum(isinstance(tool, Tool) for tool in tools)
    first = next((index for index, tool in enumerate(tools) if isinstance(tool, Tool)), 0)
    together = all(isinstance(tool, Tool) for tool in tools[first : first + declarations])
    groups: list[EntryGroup] = [[None, True] for _ in range(len(tools) - declarations)]
    if declarations:
        # Hosted tools between two declarations must move if all declarations share an entry.
        groups.insert(first if together else 0, [declarations, False])
    return groups


def _flatten_groups(groups: list[EntryGroup]) -> list[bool]:
    """Return the contents of a grouping in order: True for a declaration, False for the rest of an entry."""
    return [kind for count, more in groups for kind in [True] * abs(count or 0) + [False] * bool(more)]


def _build_entries(groups: list[EntryGroup], written: list[tuple[bool, dict[str, Any]]]) -> list[dict[str, Any]]:
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
    """Encode a schema under one of two members: the original if it is still equal, otherwise the JSON Schema, or its
    OpenAPI form for endpoints that need it."""
    notes = native_of(node, NAME)
    for key in (plain, openapi):
        if f"${key}" in notes and to_json_schema(notes[f"${key}"], where) == schema:
            return {key: notes[f"${key}"]}
    if schema is None:
        return {}
    if not wants_openapi:
        return {plain: schema_json(schema)}
    reduced = reduce_schema(schema, where, receipt)
    if openapi == "parameters" and reduced.get("type") == "OBJECT" and not reduced.get("properties"):
        return {}  # older endpoints refuse an object without properties; no parameters mean the same
    return {openapi: reduced}


# Tool choice

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


def decode_choice(calling: FunctionCallingConfig) -> ToolChoice:
    raw, names = calling.mode or "", calling.allowed_function_names or []
    if raw.upper() not in _MODES:
        return ToolChoice(mode="opaque", native={NAME: members_without(calling)})
    choice = ToolChoice(mode=_MODES[raw.upper()], names=tuple(names))
    noted = raw if raw != _usual_mode(choice) else None
    # An empty string or list is only a matter of shape.
    taken = [name for name, value in (("mode", raw), ("allowedFunctionNames", names)) if value]
    native = keep(members_without(calling, *taken), mode=noted)
    if noted is not None and raw.upper() == "VALIDATED":
        # VALIDATED enforces the schema of calls, which is more than shape: other targets must report it as lost.
        del native[NAME]["$mode"]
        native[NAME]["mode"] = raw
    return ToolChoice(mode=choice.mode, names=choice.names, native=native)


def encode_choice(choice: ToolChoice, receipt: Receipt) -> dict[str, Any] | None:
    """Encode `functionCallingConfig`. None if this API cannot express the choice."""
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
