"""`tools` and `tool_choice` <-> the IR.

A namespace is flattened: each of its tools names it, and a note (`$namespace`) lets them be put together again. Tools
also arrive inside `input`, in `additional_tools` and `tool_search_output` items; they are offered like any other, with
the note `$from_input`, and are not written to `tools`, because their item brings them.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_responses.blocks import absent, filled, own, present
from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Opaque, Request, Tool, ToolChoice, native_of, replace, with_native
from toolglot.receipt import Receipt
from toolglot.tools.remembered import MEMORY, written
from toolglot.wire.reader import Reader, expected, keep

NO_PARAMETERS = {"type": "object", "properties": {}}

_KINDS = ("function", "custom")
_NESTED = "function"
"""The member that holds a function in the form of Chat Completions."""
_BRINGERS = ("additional_tools", "tool_search_output")


def decode_tools(tools: list[Reader]) -> list[Tool | Opaque]:
    decoded: list[Tool | Opaque] = []
    for index, tool in enumerate(tools):
        kind = tool.peek("type")
        if kind == "namespace":
            decoded.extend(_decode_namespace(tool, index))
        elif _is_nested(tool):
            decoded.append(_decode_nested(tool))
        elif kind in _KINDS or _is_function(tool):
            decoded.append(MEMORY.tool(NAME, tool, _decode_tool))
        else:
            decoded.append(Opaque(NAME, tool.rest()))
    return decoded


def _is_function(tool: Reader) -> bool:
    """Has it all that a function has, but for the word that it is one?"""
    fields = tool.rest()
    return "type" not in fields and isinstance(fields.get("name"), str) and isinstance(fields.get("parameters"), dict)


def _is_nested(tool: Reader) -> bool:
    """Is it a function in the form of Chat Completions, which clients of both APIs mix up?"""
    inner = tool.peek(_NESTED)
    named = isinstance(inner, dict) and isinstance(inner.get("name"), str)
    return named and "name" not in tool and tool.rest().get("type", "function") == "function"


def _decode_nested(tool: Reader) -> Tool:
    inner = tool.object(_NESTED)
    assert inner is not None
    inner.rest()["type"] = "function"
    return _decode_tool(inner, nested=tool.rest())


def _decode_tool(tool: Reader, **shape: Any) -> Tool:
    custom = tool.peek("type") == "custom"
    lacking = None if custom else absent(tool, "type", "parameters", "strict")
    tool.take("type")
    defer = tool.flag("defer_loading")
    deferred = defer is True
    shape["deferred"] = False if defer is False else None
    name, description = tool.need_text("name"), tool.text("description")
    if custom:
        format_ = tool.take("format")
        native = keep(NAME, tool, **shape)
        return Tool(name=name, description=description, kind="custom", format=format_, deferred=deferred, native=native)
    return Tool(
        name=name,
        description=description,
        parameters=tool.take("parameters"),
        strict=tool.flag("strict"),
        deferred=deferred,
        native=keep(NAME, tool, absent=lacking, **shape),
    )


def _decode_namespace(namespace: Reader, index: int) -> list[Tool | Opaque]:
    members = namespace.peek("tools")
    plain = isinstance(members, list) and all(isinstance(item, dict) and item.get("type") in _KINDS for item in members)
    if not plain or not members or not isinstance(namespace.peek("name"), str):
        # Its members could not be put together again one by one.
        return [Opaque(NAME, namespace.rest())]
    namespace.take("type")
    name = namespace.need_text("name")
    readers = namespace.objects("tools")
    description = namespace.text("description") if namespace.peek("description") else None
    note = {"group": index, "fields": namespace.rest()}
    tools = [replace(_decode_tool(member, namespace=note), namespace=name) for member in readers]
    if description is not None:
        # Others do not know what a namespace is for: this is theirs to lose, not a matter of shape.
        tools[0] = with_native(tools[0], NAME, namespace_description=description)
    return [*tools]


def tools_in_items(items: list[Any], where: str) -> list[Tool]:
    """The tools that input items bring along."""
    brought: list[Tool] = []
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get("type") in _BRINGERS and isinstance(item.get("tools"), list):
            copy = Reader({"tools": _copied(item["tools"])}, f"{where}[{index}]")
            tools = (tool for tool in decode_tools(copy.objects("tools")) if isinstance(tool, Tool))
            found = item["type"] == "tool_search_output"
            brought.extend(
                with_native(replace(tool, deferred=tool.deferred and not found), NAME, **{"$from_input": True})
                for tool in tools
            )
    return brought


def _copied(tools: list[Any]) -> list[Any]:
    """Tools to be read while the originals stay: as deep as reading goes, which is into namespaces, and no deeper."""
    copies = [dict(tool) if isinstance(tool, dict) else tool for tool in tools]
    for tool in copies:
        if isinstance(tool, dict) and isinstance(tool.get("tools"), list):
            tool["tools"] = [dict(member) if isinstance(member, dict) else member for member in tool["tools"]]
    return copies


def offered(listed: list[Tool | Opaque], brought: list[Tool]) -> tuple[Tool | Opaque, ...]:
    """All tools, each once: one that was listed as deferred and then brought by an item is deferred no longer."""
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


def encode_tools(request: Request, receipt: Receipt) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    groups: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for index, tool in enumerate(request.tools):
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
    """Write a tool into its namespace, which is begun where its first tool stands."""
    note = native_of(tool, NAME).get("$namespace")
    group, fields = (note.get("group"), note.get("fields")) if isinstance(note, dict) else (None, None)
    key = (tool.namespace or "", group if isinstance(group, int) else None)
    if key not in groups:
        groups[key] = []
        rest = dict(fields) if isinstance(fields, dict) else {"description": ""}  # which the API demands
        rest |= present(description=native_of(tool, NAME).get("namespace_description"))
        described = {"description": rest.pop("description")} if "description" in rest else {}
        encoded.append({"type": "namespace", "name": tool.namespace, **described, "tools": groups[key], **rest})
    groups[key].append(_encode_tool(tool, where, receipt))


def _encode_tool(tool: Tool, where: str, receipt: Receipt) -> dict[str, Any]:
    if tool.cache is not None:
        receipt.loss(f"{where}.cache", "cache breakpoint", "tools of the Responses API cannot carry one")
    extra = own(tool)
    extra.pop("namespace_description", None)
    deferred = present(defer_loading=tool.deferred or native_of(tool, NAME).get("$deferred"))
    nested = native_of(tool, NAME).get("$nested")
    typed = filled(tool, type=tool.kind) if nested is None else {}
    head = {**typed, "name": tool.name, **present(description=tool.description)}
    if tool.kind == "custom":
        return {**head, **present(format=tool.format), **deferred, **extra}
    # Without `strict` the server tries to make the schema strict, and optional fields come back filled with nothing
    # (CLIProxyAPI #4497); everywhere else its absence means false.
    strict = {"strict": tool.strict} if tool.strict is not None else filled(tool, strict=False)
    parameters = (
        {"parameters": written(tool.parameters)}
        if tool.parameters is not None
        else filled(tool, parameters=NO_PARAMETERS)
    )
    fields = {**head, **parameters, **strict, **deferred, **extra}
    return fields if nested is None else {**nested, _NESTED: fields}


def decode_choice(value: Any, where: str) -> ToolChoice:
    if value in ("auto", "none", "required"):
        return ToolChoice(mode=value)
    if not isinstance(value, str | dict):
        raise expected(where, "a string or an object", value)
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    nested = fields.get(_NESTED)
    name, mode = (nested if isinstance(nested, dict) else fields).get("name"), fields.get("mode")
    if fields.get("type") in _KINDS and isinstance(name, str):
        return ToolChoice(mode="required", names=(name,), native={NAME: {"$choice": value}})
    names, others = _allowed(fields.get("tools")) if fields.get("type") == "allowed_tools" else ((), [])
    if names and mode in ("auto", "required"):
        # The hosted tools of a subset nobody else has: theirs to lose, while the rest of the subset holds.
        native = {"$choice": value, **({"tools": others} if others else {})}
        return ToolChoice(mode=mode, names=names, native={NAME: native})
    return ToolChoice(mode="opaque", native={NAME: {"choice": value}})


def _allowed(tools: Any) -> tuple[tuple[str, ...], list[Any]]:
    """The names of functions and custom tools in an allowed subset, and its other entries."""
    names: list[str] = []
    others: list[Any] = []
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") in _KINDS and isinstance(tool.get("name"), str):
            names.append(tool["name"])
        else:
            others.append(tool)
    return tuple(names), others


def encode_choice(request: Request, receipt: Receipt) -> Any:
    """The value of `tool_choice`; None when there is nothing to say."""
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
    # The wire form that came is written again only while it still says the same.
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
