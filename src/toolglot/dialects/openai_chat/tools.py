"""`tools` / `tool_choice`, and the deprecated `functions` / `function_call`, <-> the IR."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from toolglot.dialects.openai_chat.blocks import encode_cache_control, take_cache_control, take_member
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.other_forms import FLAT_TOOL, INPUT_SCHEMA, OTHER_CHOICE
from toolglot.dialects.openai_chat.wire import (
    FLAT_FUNCTIONS,
    TOOLS,
    ChatCustomTool,
    ChatFunctionDeclaration,
    ChatFunctionTool,
    CustomDeclaration,
)
from toolglot.errors import expected
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of
from toolglot.receipt import Note, Receipt
from toolglot.tools.declared import DECLARED, Tools, schema_json
from toolglot.wire.native import make_native, native_members
from toolglot.wire.openai_fields import SCHEMA_NOTES, original_schema_text, parse_schema_text
from toolglot.wire.structs import Unknown, members_without

_CHOICE_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",  # Mistral's name
}


def decode_tools(data: bytes) -> tuple[Tool | Opaque, ...]:
    """Decode the member `tools`."""
    read = TOOLS.read(b'{"tools":%b}' % data)
    return tuple([_decode_tool(tool) for tool in read.tools])


def decode_functions(functions: list[ChatFunctionDeclaration]) -> tuple[Tool, ...]:
    """Decode the deprecated member `functions`."""
    return tuple([_decode_function(function, {"legacy": True}, {}) for function in functions])


def _decode_tool(tool: ChatFunctionTool | ChatCustomTool | Unknown) -> Tool | Opaque:
    match tool:
        case ChatFunctionTool(function=function):
            return _decode_function(function, {"typeless": _is_typeless(tool)}, members_without(tool, "function"))
        case ChatCustomTool(custom=custom):
            return _decode_custom(tool, custom)
    value = tool.verbatim.value
    if value.get("type") == "function" and isinstance(value.get("name"), str):
        return _decode_function(FLAT_FUNCTIONS.read_value(value, tool.verbatim.where), {"flat": True}, {})
    if _has_input_schema(value):
        return _decode_with_input_schema(value, tool.verbatim.where)
    return Opaque(NAME, value)


def _has_input_schema(value: dict[str, Any]) -> bool:
    """Return whether this is a function in the form of the Messages API. Clients of several APIs mix them up."""
    named = isinstance(value.get("name"), str) and isinstance(value.get(_INPUT_SCHEMA), dict)
    return named and value.get("type", "custom") in ("custom", None) and "custom" not in value


_INPUT_SCHEMA = "input_schema"


def _decode_with_input_schema(value: dict[str, Any], where: str) -> Tool:
    outer = {key: value[key] for key in ("type",) if key in value}
    inner = {key: item for key, item in value.items() if key not in ("type", _INPUT_SCHEMA)}
    function = FLAT_FUNCTIONS.read_value({**inner, "type": "function", "parameters": value[_INPUT_SCHEMA]}, where)
    note = Note(_INPUT_SCHEMA, _INPUT_SCHEMA, "Chat has the schema in `parameters`; it is read as that")
    return _decode_function(function, {_INPUT_SCHEMA: outer, "unread": (note,)}, {})


def _is_typeless(tool: ChatFunctionTool | ChatCustomTool) -> bool | None:
    return True if tool.rest is not UNSET and tool.rest.is_implied else None


def _decode_custom(tool: ChatCustomTool, custom: CustomDeclaration) -> Tool:
    rest = members_without(custom, "name")
    description, format_ = take_member(rest, "description"), take_member(rest, "format")
    native = _add_outer_members(make_native(NAME, rest, typeless=_is_typeless(tool)), members_without(tool, "custom"))
    return Tool(
        name=custom.name, kind="custom", description=description, format=_flatten_grammar(format_), native=native
    )


def _decode_function(function: ChatFunctionDeclaration, shape: dict[str, Any], beside: dict[str, Any]) -> Tool:
    rest = members_without(function, "name")
    cache, control = take_cache_control(beside)
    if cache is None:
        cache, inside = take_cache_control(rest)
        shape = {**shape, "control_inside": inside}
    parameters = take_member(rest, "parameters")
    if isinstance(parameters, str) and (schema := parse_schema_text(parameters)) is not None:
        shape = {**shape, **SCHEMA_NOTES, "schema_text": parameters}
        parameters = schema
    return Tool(
        name=function.name,
        description=take_member(rest, "description"),
        parameters=parameters,
        strict=take_member(rest, "strict"),
        cache=cache,
        native=_add_outer_members(make_native(NAME, rest, **shape, cache_control=control), beside),
    )


def _add_outer_members(inner: dict[str, dict[str, Any]], outer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Store unknown members next to `function` separately from those inside it."""
    if outer:
        inner.setdefault(NAME, {})["beside"] = outer
    return inner


# A grammar is nested one level deeper here than in the IR, which has it flat: {"type", "syntax", "definition"}.


def _flatten_grammar(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "grammar" and isinstance(value.get("grammar"), dict):
        return {**{key: item for key, item in value.items() if key != "grammar"}, **value["grammar"]}
    return value


def _nest_grammar(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "grammar":
        return {"type": "grammar", "grammar": {key: item for key, item in value.items() if key != "type"}}
    return value


def encode_tools(fields: dict[str, Any], request: Request, receipt: Receipt) -> None:
    """Add the members `tools` and `functions`, if there are any."""
    tools = request.tools
    listed = DECLARED.write(tools, NAME, lambda lines: _encode_tool_list(tools, lines), receipt)
    if listed is None and native_of(request, NAME).get("$no_tools"):
        listed = []
    if listed is not None:
        fields["tools"] = listed
    has_legacy: bool = DECLARED.derive(tools, "legacy", None, _has_legacy, tools)
    if has_legacy:
        fields["functions"] = [_encode_function(tool) for tool in tools if isinstance(tool, Tool) and _is_legacy(tool)]


def _has_legacy(tools: Tools) -> bool:
    return any(map(_is_legacy, tools))


def _is_legacy(tool: Tool | Opaque) -> bool:
    return bool(native_of(tool, NAME).get("$legacy"))


def _encode_tool_list(tools: Tools, receipt: Receipt) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Opaque):
            if tool.dialect == NAME:
                encoded.append(tool.value)
            else:
                receipt.loss(f"tools[{index}]", "tool of another API", "Chat Completions does not know its type")
        elif not _is_legacy(tool):
            encoded.append(_encode_tool(tool))
    return encoded


def _encode_tool(tool: Tool) -> dict[str, Any]:
    notes = native_of(tool, NAME)
    beside = notes.get("beside", {})
    typed = {} if notes.get("$typeless") else {"type": tool.kind}
    if tool.kind == "custom":
        custom = {"name": tool.name, **_present(description=tool.description, format=_nest_grammar(tool.format))}
        return {**typed, "custom": {**custom, **_inner_members(tool)}, **beside}
    if notes.get(FLAT_TOOL):
        return {**typed, **_encode_function(tool)}
    if (outer := notes.get(INPUT_SCHEMA)) is not None:
        fields = _encode_function(tool)
        schema = fields.pop("parameters")
        return {**outer, **fields, _INPUT_SCHEMA: schema}
    return {**typed, "function": _encode_function(tool), **beside, **encode_cache_control(tool)}


def _encode_function(tool: Tool) -> dict[str, Any]:
    schema = original_schema_text(tool.parameters, native_of(tool, NAME)) or schema_json(tool.parameters)
    fields = _present(description=tool.description, parameters=schema, strict=tool.strict)
    control = native_of(tool, NAME).get("$control_inside")
    return {"name": tool.name, **fields, **_inner_members(tool), **({"cache_control": control} if control else {})}


def _inner_members(tool: Tool) -> dict[str, Any]:
    return {key: value for key, value in native_members(native_of(tool, NAME)).items() if key != "beside"}


def _present(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def take_choice(members: dict[str, Any]) -> ToolChoice | None:
    """Take the tool choice out of a request's members."""
    value = take_member(members, "tool_choice")
    if value is not None:
        return _decode_choice(value)
    legacy = take_member(members, "function_call")
    if legacy is None:
        return None
    if isinstance(legacy, dict) and isinstance(legacy.get("name"), str):
        return ToolChoice(mode="required", names=(legacy["name"],), native={NAME: {"$legacy": True}})
    if legacy in ("auto", "none"):
        return ToolChoice(mode=legacy, native={NAME: {"$legacy": True}})
    raise expected("$.function_call", '"auto", "none" or an object with a name', legacy)


def _decode_choice(value: Any) -> ToolChoice:
    if isinstance(value, str):
        mode = _CHOICE_MODES.get(value)
        if mode is None:
            return ToolChoice(mode="opaque", native={NAME: {"choice": value}})
        return ToolChoice(mode=mode, native={NAME: {"$choice": value}} if value != mode else {})
    if not isinstance(value, dict):
        raise expected("$.tool_choice", "a string or an object", value)
    kind = value.get("type") or _implied_kind(value)
    if value.keys() == {"type"} and kind in _CHOICE_MODES:  # the form of the Messages API; Cursor sends it
        return ToolChoice(mode=_CHOICE_MODES[kind], native={NAME: {OTHER_CHOICE: value}})
    inner, note = value.get(kind) if isinstance(kind, str) else None, "$choice"
    if kind in ("function", "tool") and inner is None:  # the forms of Responses and Messages
        inner, note = value, OTHER_CHOICE
    if kind in ("function", "custom", "tool") and isinstance(inner, dict) and isinstance(inner.get("name"), str):
        return ToolChoice(mode="required", names=(inner["name"],), native={NAME: {note: value}})
    if kind == "allowed_tools" and isinstance(inner, dict) and inner.get("mode") in ("auto", "required"):
        names = _allowed_names(inner.get("tools"))
        if names is not None:
            return ToolChoice(mode=inner["mode"], names=names, native={NAME: {"$choice": value}})
    return ToolChoice(mode="opaque", native={NAME: {"choice": value}})


def _implied_kind(choice: dict[str, Any]) -> str | None:
    """Return the type of a choice without one. Mistral's SDK omits it."""
    found = [] if "type" in choice else [kind for kind in ("function", "custom") if choice.get(kind) is not None]
    return found[0] if len(found) == 1 else None


def _allowed_names(tools: Any) -> tuple[str, ...] | None:
    """Return the names in an allowed subset; None if an entry is not a plain function or custom tool."""
    names: list[str] = []
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get(tool.get("type")) if isinstance(tool, dict) and isinstance(tool.get("type"), str) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            return None
        names.append(inner["name"])
    return tuple(names) if names else None


def encode_choice(request: Request, receipt: Receipt) -> dict[str, Any]:
    choice = request.tool_choice
    if choice is None:
        return {}
    own = native_of(choice, NAME)
    if own.get("$legacy"):
        return {"function_call": {"name": choice.names[0]} if choice.names else choice.mode}
    if choice.mode == "opaque":
        if "choice" in own:
            return {"tool_choice": own["choice"]}
        receipt.loss("tool_choice", "a hosted tool", "Chat Completions cannot choose it")
        return {}
    # The original form is written back only if it still means the same.
    for note in ("$choice", OTHER_CHOICE):
        if note in own and _is_same_choice(_decode_choice(own[note]), choice):
            return {"tool_choice": own[note]}
    if not choice.names:
        return {"tool_choice": choice.mode}
    custom = {tool.name for tool in request.tools if isinstance(tool, Tool) and tool.kind == "custom"}
    named = [_tool_reference("custom" if name in custom else "function", name) for name in choice.names]
    if choice.mode == "required" and len(named) == 1:
        return {"tool_choice": named[0]}
    return {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}}


def _is_same_choice(first: ToolChoice, second: ToolChoice) -> bool:
    return (first.mode, first.names) == (second.mode, second.names)


def _tool_reference(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, kind: {"name": name}}
