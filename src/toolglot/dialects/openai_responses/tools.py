"""`tools` and `tool_choice` <-> the IR.

A namespace is flattened: each of its tools names it, and a note (`$namespace`) lets them be grouped again. Tools also
occur inside `input`, in `additional_tools` and `tool_search_output` items. They are offered like any other, with the
note `$from_input`, but are not written to `tools`, because their item has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Raw, Struct

from toolglot.dialects.openai_responses.blocks import (
    default_members,
    missing_members,
    none_if_unset,
    own_members,
    without_nulls,
)
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import (
    AdditionalTools,
    AnyTool,
    ResponsesCustomTool,
    ResponsesFunctionTool,
    ToolSearchOutput,
)
from toolglot.errors import DecodeError, expected
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of, replace, with_native
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools, schema_json
from toolglot.wire import json
from toolglot.wire.native import make_native
from toolglot.wire.openai_fields import SCHEMA_NOTES, original_schema_text, parse_schema_text
from toolglot.wire.structs import Unknown, Verbatim, members_without
from toolglot.wire.typed import UnsoundError, part_reader, sound_text

NO_PARAMETERS = {"type": "object", "properties": {}}

_KINDS = ("function", "custom")
_NESTED = "function"
"""The member that holds a function in the form of Chat Completions."""
_read_list = part_reader(list[AnyTool])


def declared_tools(raw: Raw, document: bytes) -> Tools:
    """Decode the member `tools` of a request."""
    return DECLARED.read(NAME, raw, lambda data: _decode_tools(data, "$.tools", document), lambda tools: tools)


def _decode_tools(data: bytes, where: str, document: bytes) -> Tools:
    _check_sound(data, document)
    return read_tools(data, where)


def _check_sound(data: bytes, document: bytes) -> None:
    try:
        sound_text(Raw(data))
    except UnsoundError:
        json.decode(document)  # raises with the path


def read_tools(data: bytes, where: str) -> Tools:
    decoded: list[Tool | Opaque] = []
    for index, tool in enumerate(_read_list(data, where)):
        if isinstance(tool, Unknown):
            decoded.extend(_decode_unknown(tool.verbatim, index))
        else:
            decoded.append(_decode_tool(tool))
    return tuple(decoded)


def _decode_unknown(tool: Verbatim, index: int) -> Iterable[Tool | Opaque]:
    value = tool.value
    if value.get("type") == "namespace":
        return _decode_namespace(value, tool.where, index)
    if _is_nested(value):
        inner = {**value[_NESTED], "type": "function"}
        outer = {key: member for key, member in value.items() if key != _NESTED}
        return [_decode_tool(_read_tool(inner, f"{tool.where}.{_NESTED}"), nested=outer)]
    if tool.missing is not None:
        raise tool.missing
    if _is_function(value):
        return [_decode_tool(_read_tool({**value, "type": "function"}, tool.where), is_untyped=True)]
    return [Opaque(NAME, value)]


def _read_tool(value: dict[str, Any], where: str) -> ResponsesFunctionTool | ResponsesCustomTool:
    tool: AnyTool = _read_one(json.encode(value), where)
    if not isinstance(tool, Unknown):
        return tool
    raise tool.verbatim.missing or DecodeError(f"{where}.type", "no known type")


_read_one = part_reader(AnyTool)


def _is_function(tool: dict[str, Any]) -> bool:
    """Return whether this has all members of a function except the type."""
    return "type" not in tool and isinstance(tool.get("name"), str) and isinstance(tool.get("parameters"), dict)


def _is_nested(tool: dict[str, Any]) -> bool:
    """Return whether this is a function in the form of Chat Completions. Clients of both APIs mix them up."""
    inner = tool.get(_NESTED)
    named = isinstance(inner, dict) and isinstance(inner.get("name"), str)
    return named and tool.get("name") is None and tool.get("type", "function") == "function"


def _decode_tool(tool: ResponsesFunctionTool | ResponsesCustomTool, *, is_untyped: bool = False, **shape: Any) -> Tool:
    name, description, deferred = tool.name, none_if_unset(tool.description), tool.defer_loading is True
    not_deferred = False if tool.defer_loading is False else None
    if isinstance(tool, ResponsesCustomTool):
        members = members_without(tool, *_TOOL_MEMBERS, *_unless_null("format", tool.format))
        native = make_native(NAME, members, **shape, deferred=not_deferred)
        form = none_if_unset(tool.format)
        return Tool(name=name, description=description, kind="custom", format=form, deferred=deferred, native=native)
    lacking = [*(("type",) if is_untyped else ()), *missing_members(tool, "parameters", "strict")]
    members = members_without(tool, *_TOOL_MEMBERS, "strict", *_unless_null("parameters", tool.parameters))
    parameters = none_if_unset(tool.parameters)
    if isinstance(parameters, str) and (schema := parse_schema_text(parameters)) is not None:
        shape = {**shape, **SCHEMA_NOTES, "schema_text": parameters}
        parameters = schema
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        strict=none_if_unset(tool.strict),
        deferred=deferred,
        native=make_native(NAME, members, absent=lacking or None, **shape, deferred=not_deferred),
    )


_TOOL_MEMBERS = ("name", "description", "defer_loading")


def _unless_null(name: str, value: Any) -> tuple[str, ...]:
    return () if value is None else (name,)


def _decode_namespace(namespace: dict[str, Any], where: str, index: int) -> list[Tool] | list[Opaque]:
    members = namespace.get("tools")
    plain = isinstance(members, list) and all(isinstance(item, dict) and item.get("type") in _KINDS for item in members)
    name, description = namespace.get("name"), namespace.get("description")
    if not plain or not members or not isinstance(name, str):
        # Its members could not be grouped again.
        return [Opaque(NAME, namespace)]
    if description and not isinstance(description, str):
        raise expected(f"{where}.description", "a string", description)
    taken = ("type", "name", "tools", "description") if description else ("type", "name", "tools")
    note = {"group": index, "fields": {key: value for key, value in namespace.items() if key not in taken}}
    read = [_read_tool(member, f"{where}.tools[{place}]") for place, member in enumerate(members)]
    tools = [replace(_decode_tool(member, namespace=note), namespace=name) for member in read]
    if description:
        # Other dialects cannot carry the description. It is a native member, not a note, so that the loss is reported.
        tools[0] = with_native(tools[0], NAME, namespace_description=description)
    return tools


class ItemTools(Struct, frozen=True):
    """The member `tools` of an item: the original value, and the decoded tools."""

    value: Any
    tools: tuple[Tool, ...]


NO_ITEM_TOOLS = ItemTools(UNSET, ())


def read_item_tools(item: AdditionalTools | ToolSearchOutput, where: str, document: bytes) -> ItemTools:
    """Return the tools in an item of `input`."""
    if item.tools is UNSET:
        return NO_ITEM_TOOLS
    is_found = isinstance(item, ToolSearchOutput)

    def decode(data: bytes) -> ItemTools:
        _check_sound(data, document)
        value = json.decode(data)
        if not isinstance(value, list):
            return ItemTools(value, ())
        tools = [tool for tool in read_tools(data, f"{where}.tools") if isinstance(tool, Tool)]
        return ItemTools(value, tuple([_mark_item_tool(tool, is_found=is_found) for tool in tools]))

    kind = f"{NAME} {'found' if is_found else 'brought'}"
    return DECLARED.read(kind, item.tools, decode, lambda read: read.tools)


def _mark_item_tool(tool: Tool, *, is_found: bool) -> Tool:
    loaded = replace(tool, deferred=tool.deferred and not is_found)
    return with_native(loaded, NAME, **{"$from_input": True})


def merge_tools(listed: Tools, brought: list[Tool]) -> tuple[Tool | Opaque, ...]:
    """Return all tools, each once. A tool that was listed as deferred and later appears in an item is no longer
    deferred.
    """
    if not brought:
        return listed
    loaded = {(tool.namespace, tool.name) for tool in brought if not tool.deferred}
    tools: list[Tool | Opaque] = []
    for tool in listed:
        if isinstance(tool, Tool) and tool.deferred and (tool.namespace, tool.name) in loaded:
            tool = with_native(replace(tool, deferred=False), NAME, **{"$deferred": True})
        tools.append(tool)
    known = {(tool.namespace, tool.name) for tool in tools if isinstance(tool, Tool)}
    for tool in brought:
        if (tool.namespace, tool.name) not in known:
            known.add((tool.namespace, tool.name))
            tools.append(tool)
    return tuple(tools)


def encode_tools(request: Request, receipt: Receipt) -> Any:
    """Return the member `tools`; None if there are none."""
    return DECLARED.write(request.tools, NAME, lambda lines: encode_tool_list(request.tools, lines), receipt)


def encode_tool_list(tools: Tools, receipt: Receipt) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    groups: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if isinstance(tool, Opaque):
            if tool.dialect == NAME:
                encoded.append(tool.value)
            else:
                receipt.loss(where, "tool of another API", "the Responses API does not know its type")
        elif native_of(tool, NAME).get("$from_input"):
            continue
        elif tool.namespace is None:
            encoded.append(_encode_tool(tool, where, receipt))
        else:
            _encode_member(tool, where, encoded, groups, receipt)
    return encoded


def _encode_member(
    tool: Tool,
    where: str,
    encoded: list[dict[str, Any]],
    groups: dict[tuple[str, Any], list[dict[str, Any]]],
    receipt: Receipt,
) -> None:
    """Add a tool to its namespace, which is placed at the position of its first tool."""
    note = native_of(tool, NAME).get("$namespace")
    group, fields = (note.get("group"), note.get("fields")) if isinstance(note, dict) else (None, None)
    key = (tool.namespace or "", group if isinstance(group, int) else None)
    if key not in groups:
        groups[key] = []
        rest = dict(fields) if isinstance(fields, dict) else {"description": ""}  # the API requires it
        rest |= without_nulls(description=native_of(tool, NAME).get("namespace_description"))
        described = {"description": rest.pop("description")} if "description" in rest else {}
        encoded.append({"type": "namespace", "name": tool.namespace, **described, "tools": groups[key], **rest})
    groups[key].append(_encode_tool(tool, where, receipt))


def _encode_tool(tool: Tool, where: str, receipt: Receipt) -> dict[str, Any]:
    if tool.cache is not None:
        receipt.loss(f"{where}.cache", "cache breakpoint", "tools of the Responses API cannot carry one")
    extra = own_members(tool)
    extra.pop("namespace_description", None)
    deferred = without_nulls(defer_loading=tool.deferred or native_of(tool, NAME).get("$deferred"))
    nested = native_of(tool, NAME).get("$nested")
    typed = default_members(tool, type=tool.kind) if nested is None else {}
    head = {**typed, "name": tool.name, **without_nulls(description=tool.description)}
    if tool.kind == "custom":
        return {**head, **without_nulls(format=tool.format), **deferred, **extra}
    # Without `strict` the server tries to make the schema strict, and the model fills in optional fields with empty
    # values (CLIProxyAPI #4497); in all other APIs its absence means false.
    strict = {"strict": tool.strict} if tool.strict is not None else default_members(tool, strict=False)
    parameters = (
        {"parameters": original_schema_text(tool.parameters, native_of(tool, NAME)) or schema_json(tool.parameters)}
        if tool.parameters is not None
        else default_members(tool, parameters=NO_PARAMETERS)
    )
    fields = {**head, **parameters, **strict, **deferred, **extra}
    return fields if nested is None else {**nested, _NESTED: fields}


def decode_choice(value: Any, where: str) -> ToolChoice:
    if value in ("auto", "none", "required"):
        return ToolChoice(mode=value)
    if not isinstance(value, (str, dict)):
        raise expected(where, "a string or an object", value)
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    nested = fields.get(_NESTED)
    name, mode = (nested if isinstance(nested, dict) else fields).get("name"), fields.get("mode")
    if fields.get("type") in _KINDS and isinstance(name, str):
        return ToolChoice(mode="required", names=(name,), native={NAME: {"$choice": value}})
    names, others = _allowed_names(fields.get("tools")) if fields.get("type") == "allowed_tools" else ((), [])
    if names and mode in ("auto", "required"):
        # Other dialects lose the hosted tools of the subset; the rest of it stays.
        native = {"$choice": value, **({"tools": others} if others else {})}
        return ToolChoice(mode=mode, names=names, native={NAME: native})
    return ToolChoice(mode="opaque", native={NAME: {"choice": value}})


def _allowed_names(tools: Any) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names of functions and custom tools in an allowed subset, and its other entries."""
    names: list[str] = []
    others: list[Any] = []
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") in _KINDS and isinstance(tool.get("name"), str):
            names.append(tool["name"])
        else:
            others.append(tool)
    return tuple(names), others


def encode_choice(request: Request, receipt: Receipt) -> Any:
    """Return the value of `tool_choice`; None if there is none."""
    choice = request.tool_choice
    if choice is None:
        return None
    notes = native_of(choice, NAME)
    if choice.mode == "opaque":
        if "choice" not in notes:
            receipt.loss("tool_choice", "a hosted tool", "the Responses API cannot choose it")
        return notes.get("choice")
    if not choice.names:
        return choice.mode
    # The original form is written back only if it still means the same.
    if "$choice" in notes:
        original = decode_choice(notes["$choice"], "$.tool_choice")
        if (original.mode, original.names) == (choice.mode, choice.names):
            return notes["$choice"]
    custom = {tool.name for tool in request.tools if isinstance(tool, Tool) and tool.kind == "custom"}
    named = [{"type": "custom" if name in custom else "function", "name": name} for name in choice.names]
    named += notes.get("tools", ())
    if choice.mode == "required" and len(named) == 1:
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": named}
